package sluice

import "time"

// Reason says why a request was decided as it was.
type Reason uint8

// The reasons.
const (
	// ReasonNone: the request passes.
	ReasonNone Reason = iota
	// ReasonLimited: the budget does not hold the cost now.
	ReasonLimited
	// ReasonTooSoon: the least interval since the last request has not passed.
	ReasonTooSoon
	// ReasonNever: the cost is more than the limit could ever give.
	ReasonNever
	// ReasonBanned: the key ran over too often and is refused for a time.
	ReasonBanned
	// ReasonTableFull: the store holds as many keys as it may and takes no new ones.
	ReasonTableFull
	// ReasonNoRule: no rule matches the request.
	ReasonNoRule
	// ReasonStoreError: the store could not decide.
	ReasonStoreError
	// ReasonMissingKey: the request lacks a part of the key, and must not.
	ReasonMissingKey
	// ReasonListed: the key or the client is on a list of those to refuse.
	ReasonListed
)

var reasonNames = [...]string{"", "limited", "too-soon", "never", "banned", "table-full", "no-rule", "store-error", "missing-key", "listed"}

// String returns the reason in a word, empty for ReasonNone.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// MarshalText writes the reason as String does.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Decision is the answer to a Request.
type Decision struct {
	// Allowed says that the request may pass, after Delay.
	Allowed bool
	// Reason says why it may not.
	Reason Reason
	// Degraded says that the answer does not come from the store that was asked,
	// but from what stands in for it while it is down.
	Degraded bool
	// Overflow says that the key shares its budget with others, because the store
	// holds as many keys as it may.
	Overflow bool

	// Limit is the most units the limit can hold at once.
	Limit int64
	// Remaining is how many units the caller can still take now, after its floor.
	Remaining int64
	// Delay is how long an allowed request must wait before it acts.
	Delay time.Duration
	// RetryAfter is when the same request would be allowed, if nobody else asks.
	// Zero when it is allowed, and when it never will be.
	RetryAfter time.Duration
	// ResetAfter is when the key's whole budget is back, if nobody asks.
	ResetAfter time.Duration
	// Receipt is what the store needs to settle or cancel the charge.
	Receipt Receipt
}

// Receipt says when a charge was made, in the terms of its algorithm. Only
// stores read it.
type Receipt struct {
	At   int64
	Over uint64
}
