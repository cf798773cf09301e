// Package policy decides requests by rules: which rules match a request, for which key, at what
// cost, and what follows. It compiles the rules once, and decides all limits of all matching rules
// in one batch of a store.
//
// Decide waits for nothing and holds nothing: package gate carries a [Verdict] out. The package
// depends on no protocol. An edge describes its request by [Attributes], and implements [Values] for
// headers and the like.
package policy
