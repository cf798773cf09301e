// Package granttest is a server in memory that grants units of limits, for tests. It computes with the
// oracle, so it is slow. No program uses it.
package granttest
