// Package policy says what a request meets: which rules match it, for which
// keys and costs, and what becomes of it. A Policy is compiled from rules, is
// immutable, and decides all limits of a request as one: all are charged, or none is.
//
// The package knows no protocol. An edge describes its request by Attributes and
// carries the Verdict out; net/http has package httplimit.
package policy
