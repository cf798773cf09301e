// Package guard wraps a [sluice.Store] that may fail, such as one on a network, and decides
// by a fallback while the store does not.
//
// Each call of the store has a deadline, even if the store ignores it. The calls in flight
// are bounded. A circuit breaker stops calling a store that fails or is slow, until a probe
// succeeds. What the store does not decide, the [Fallback] of the limit decides: [Local]
// limits in this process, to its share of the limit; [Allow] lets pass; [Deny] refuses. The
// decision is Degraded then.
//
// A call whose reply is lost is never repeated: the fallback decides. Leases and reservations
// end where they were granted: in the store or in the local store, also when the store is
// back.
//
// docs/adr/0010 explains why it is made like this.
package guard
