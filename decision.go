package sluice

import (
	"time"
)

// NoWait is a Request's MaxWait that refuses any delay.
const NoWait time.Duration = -1

// Request is what a store decides: may Key take Cost units of Limit? Most callers let a Limiter
// make it.
type Request struct {
	// Limit is the limit that decides. Required.
	Limit *Limit
	// Key is the client that the limit counts for. The zero Key is one client: everybody.
	Key Key
	// Cost is how many units are taken. It has no default: zero takes nothing, and passes unless the key is banned or
	// more units are used than the limit has. [Limiter.Request] makes a request for one unit.
	Cost int64
	// Floor is how many units must remain after the take. They are reserved for more important
	// requests.
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
	// Shadow decides and charges this request on its own: it never denies a batch.
	Shadow bool
	// Debit takes the cost whatever is left, for work that is done already. Allowed reports whether
	// the units were there, as without Debit. What was not there becomes debt, which refuses later
	// requests until the rate, or the next window, has paid it. The numbers of a denial are of the
	// state with this debt. A token bucket owes up to its Debt, and the rest is forgiven.
	//
	// A batch charges its debits in any case. It decides them first, in their order, and a debit that
	// is denied denies the batch. A peek takes nothing, with Debit or without it. See
	// [Limit.TakesDebits] for the limits that can owe units.
	Debit bool
	// Overdraw lets the request pass while one unit can be taken, and takes its whole cost: what is missing becomes debt.
	// It is for costs that nobody can bound in advance. A limit admits at most one cost more than it has for each caller
	// that decides at the same time. A token bucket may owe more than its Debt then. Limits that take no debits refuse it.
	Overdraw bool
	// Hold gives the cost back if nobody settles the charge within this time, up to 24 hours: for example because the
	// process has died. Zero leaves it charged. The next request with a Hold for this limit and key finds the units
	// again, at the latest. A settlement that comes later charges the actual cost as a debit does. A charge with a Hold
	// is never cancelled: settle it at 0. Such a request accepts no wait, and limits that take no debits refuse it. See
	// ErrUnsupported for stores without holds. If a store has no room for a hold, the cost stays charged.
	Hold time.Duration
}

// maxHold bounds Request.Hold.
const maxHold = 24 * time.Hour

// Reason says why a request was denied.
type Reason uint8

// The reasons.
const (
	// ReasonNone: the request passes.
	ReasonNone Reason = iota
	// ReasonLimited: the limit has fewer units left than the cost.
	ReasonLimited
	// ReasonTooSoon: the minimum interval since the last request has not passed.
	ReasonTooSoon
	// ReasonNever: the cost is more than the limit can ever give.
	ReasonNever
	// ReasonBanned: the key is banned.
	ReasonBanned
	// ReasonTableFull: the store is full and takes no new keys.
	ReasonTableFull
	// ReasonNoRule: no rule matches the request.
	ReasonNoRule
	// ReasonStoreError: the store could not decide.
	ReasonStoreError
	// ReasonMissingKey: the request lacks a required part of the key.
	ReasonMissingKey
	// ReasonListed: the key or the client is on a deny list.
	ReasonListed
	// ReasonRepeatedKey: the request has a part of the key several times, and services may read another
	// value than the rule.
	ReasonRepeatedKey
	// ReasonUnknownPlan: the request names a plan that the policy does not have, or several.
	ReasonUnknownPlan
)

var reasonNames = [...]string{"", "limited", "too-soon", "never", "banned", "table-full", "no-rule", "store-error", "missing-key", "listed", "repeated-key", "unknown-plan"}

// String returns the reason as a word, empty for ReasonNone.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// MarshalText returns the text of String, and never an error.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Decision is what a store decides about a Request.
type Decision struct {
	// Allowed says that the request may pass, after Delay.
	Allowed bool
	// Reason says why the request was denied.
	Reason Reason
	// Degraded says that a fallback decided, because the store failed. What the key has used is not known then:
	// Remaining and ResetAfter come from the fallback, and clients should not get them.
	Degraded bool
	// Overflow says that the key shares its units with other keys, because the store is
	// full.
	Overflow bool

	// Limit is the Capacity of the limit: the most units that it can give at once.
	Limit int64
	// Remaining is how many units the caller can still take now, above its floor.
	Remaining int64
	// Delay is how long an allowed request must wait before it acts.
	Delay time.Duration
	// RetryAfter is the time until the same request would be allowed, if the key makes no
	// other request. It is zero if the request is allowed, and if it never can be.
	RetryAfter time.Duration
	// ResetAfter is the time until the key has all its units again, if it makes no request.
	ResetAfter time.Duration
	// Receipt is what the store needs to settle or cancel the charge. Only stores read it.
	Receipt Receipt
}

// Tighter reports whether d limits its client more than o does: by a denial, by the longer wait, by fewer units that
// remain. It reports false if both limit alike.
func (d *Decision) Tighter(o *Decision) bool {
	switch {
	case d.Allowed != o.Allowed:
		return o.Allowed
	case !d.Allowed:
		if never := d.Reason == ReasonNever; never != (o.Reason == ReasonNever) {
			return never
		}
		return d.RetryAfter > o.RetryAfter
	case d.Degraded != o.Degraded:
		return o.Degraded // what remains of the other one is not known
	case d.Remaining != o.Remaining:
		return d.Remaining < o.Remaining
	case d.Remaining > 0 && d.Limit != o.Limit:
		return d.Limit > o.Limit // a smaller share remains
	default:
		return d.ResetAfter > o.ResetAfter
	}
}
