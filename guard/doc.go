// Package guard wraps a [sluice.Store] that may fail, such as a store on a network. While the
// store does not decide, a fallback does.
//
// Each call of the store has a deadline, even if the store ignores it. The calls in flight
// are bounded. A circuit breaker stops calling a store that fails or is slow, until a probe
// succeeds. If the store does not decide, the [Fallback] of the limit does, and the decision
// is Degraded. [sluice.FallbackLocal] limits in this process, to its share of the limit. [sluice.FallbackAllow] lets
// requests pass; [sluice.FallbackDeny] refuses them.
//
// A call whose reply is lost is never repeated: the fallback decides. Leases and reservations
// end where they were granted, in the store or in the local store, even after the store is
// back.
//
// See docs/adr/0010 for the reasons.
package guard
