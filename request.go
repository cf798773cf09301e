package sluice

import "time"

// NoWait is a Request's MaxWait that refuses any delay.
const NoWait time.Duration = -1

// Request asks a store whether Key may take Cost units of Limit. Most callers let a Limiter
// make it.
type Request struct {
	Limit *Limit
	Key   Key
	// Cost is how many units are taken. Zero takes nothing and passes, unless the
	// key is banned or in debt.
	Cost int64
	// Floor is how many units must remain after the take: they are reserved for more
	// important requests.
	Floor int64
	// MaxWait is the longest acceptable delay. Zero means the delay that the limit itself
	// offers: none for a token bucket, the queue of a leaky bucket or of a concurrency limit.
	// NoWait refuses any delay.
	MaxWait time.Duration
	// Member identifies the lease of a concurrency limit among the leases of its key.
	// A second request with the same member renews the lease.
	Member uint64
	// Ban refuses a key outright after too many denials, or if it was banned by hand. With
	// nil, the decision ignores bans.
	Ban *Ban
	// Peek decides and writes nothing.
	Peek bool
	// Shadow decides and charges this request on its own; it never makes a batch fail.
	Shadow bool
}
