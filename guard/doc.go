// Package guard stands over a [sluice.Store] that may fail, such as one on a
// network, and answers in its place while it does.
//
// Each call has a deadline, also when the store ignores it; the calls in flight are
// bounded; and a circuit breaker stops asking a store that fails or is slow, until a
// probe succeeds. What the store does not decide is decided by the ladder, per limit: [Local]
// limits in this process, to its share of the limit; [Allow] lets pass; [Deny] refuses. Such a
// decision says Degraded.
//
// A call whose reply is lost is never made again: the ladder answers. What was
// taken goes back to the layer that granted it: a lease or reservation of the store to the
// store, and one that stands in for it to where it came from, also when the store is back.
//
// See docs/adr/0010.
package guard
