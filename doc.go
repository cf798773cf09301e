// Package sluice decides whether a request may pass now, later, or not at all.
//
// A [Limit] is an algorithm and its numbers, a [Key] is whom it counts for, and a
// [Store] keeps the state: package memory for one process. Most programs
// hold a [Limiter], which is a store and one limit:
//
//	limit, err := sluice.NewLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20})
//	…
//	limiter := sluice.NewLimiter(store, limit)
//	d, err := limiter.Allow(ctx, sluice.StringKey(user))
//
// and ask with Allow whether a request may pass, with Wait for one that can
// wait, with Reserve for one that says itself how long. A denial is a Decision
// and no error: an error means that nothing was decided.
//
// All algorithms are exact: no fraction of a unit is lost or minted, whatever
// the schedule of requests. What each of them admits over an interval is stated
// with its type.
package sluice
