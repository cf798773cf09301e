// Package webhook sends signed messages to a program of the operator when the pressure on rules becomes high,
// and when it no longer is.
package webhook
