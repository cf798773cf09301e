// Package expression has conditions on requests in the language of expr-lang; see docs/adr/0015.
package expression
