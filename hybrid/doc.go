// Package hybrid decides limits in this process, on units that a shared store has granted to it
// ahead of the requests. A local decision takes about as long as a decision of package memory. All
// processes together never admit more than the limit: see docs/hybrid.md for the bound.
//
// A [Store] wraps a [driver.Grantor], such as the store of package redisstore. It decides a limit
// locally if the limit has hybrid terms, see [sluice.Limit.WithHybrid], and while this process gets
// many requests for the key. Everything else goes to the wrapped store: other limits, keys with few
// requests, bans, leases and waits.
//
// Package guard can wrap the Store, as any store. It makes local decisions without a deadline or
// a circuit breaker.
//
// # Answers that are bounds
//
// The process has only a part of a key's units in hand. So Remaining of a local decision is a lower
// bound: other units of the key may be free in the shared store. A peek is a bound too. It allows
// what is in hand, and otherwise reports what the shared store would allow, which does not include
// the units in hand of any process. ResetAfter is an estimate.
//
// # Cancel and Settle
//
// A charge that this process has not reported yet is settled in hand. After the report, the shared
// store does it: the charge counts as made when the process decided it. A local charge acts at once. So
// Cancel gives back nothing after the microsecond of the decision, as in any store; settle at 0 instead.
package hybrid
