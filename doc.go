// Package sluice decides whether a request may pass now, later, or not at all.
//
// A [Limit] is an algorithm and its numbers. A [Key] identifies the client that the limit counts
// for. A [Store] keeps the state. Most programs hold a [Limiter], which joins a store and one
// limit. The shortest way to a Limiter is memory.NewLimiter, which keeps the state in this
// process:
//
//	limiter, err := memory.NewLimiter("100/m")
//	…
//	d, err := limiter.Allow(ctx, sluice.StringKey(user))
//	if !d.Allowed {
//		// come back after d.RetryAfter
//	}
//
// With a store and a limit of your own:
//
//	limit, err := sluice.NewLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20})
//	…
//	limiter := sluice.NewLimiter(store, limit)
//
// Allow decides at once, Wait blocks until the request may pass, and Reserve takes units ahead
// of time. Acquire takes a lease of a concurrency limit. Each takes one unit; AllowN, WaitN,
// ReserveN and AcquireN take n.
//
// A denial is a Decision, not an error. An error means that nothing was decided.
//
// All algorithms are exact: no fraction of a unit is lost or invented, whatever the schedule
// of requests. The documentation of each algorithm says how much it admits over an interval.
//
// # For authors of stores
//
// Programs that use a store need none of the following. A store of your own implements [Store], and may implement
// [Banner] and the interfaces of package driver. Package storetest is its contract: it runs against any store. These
// parts serve a store:
//
//   - [Request.Check] reports an invalid request.
//   - [Limit.ID] identifies the states of a limit, and [Limit.NameID] its bans. [Key.Text] and
//     [Key.Len] identify a key; [EncodedKey] and [AppendKeyPart] make a key from encoded parts.
//   - A [Decision] carries a [Receipt]. [Request.Charge] makes a [Charge] from it; Cancel,
//     Settle and Release take the charge.
//   - Package driver has the arithmetic, and an example of a whole store. [Limit.Params] and [Ban.Terms] are for the
//     stores of this repository.
package sluice
