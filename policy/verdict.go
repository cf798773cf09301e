package policy

import (
	"time"

	"github.com/sluicehq/sluice"
)

// Action is what becomes of a request.
type Action uint8

// The actions.
const (
	// Allow lets the request pass, after the verdict's Delay.
	Allow Action = iota
	// Deny refuses it.
	Deny
)

// String returns the action in a word.
func (a Action) String() string {
	if a == Allow {
		return "allow"
	}
	return "deny"
}

// Verdict is all decisions about a request folded into one action, with the
// explanation. The zero Verdict allows and has met no rule.
type Verdict struct {
	Action Action
	// Reason says why: of the tightest denial, ReasonNoRule if no rule matched,
	// ReasonStoreError if the store could not decide, ReasonMissingKey if a part of the
	// key is missing, or ReasonNever if the request is none that a store could decide.
	Reason sluice.Reason
	// Rule is the rule that decided: the tightest one that was met, nil for none.
	Rule *Rule
	// Tightest is the decision that fills the headers: of the denials the one with the
	// longest wait, otherwise the one with the fewest units remaining. Its Limit is
	// zero if no limit was met. Rules in shadow are not asked.
	Tightest sluice.Decision
	// TightestLimit is the limit of Tightest, nil if none was met.
	TightestLimit *sluice.Limit
	// Delay is the longest delay of all limits, of an allowed request.
	Delay time.Duration
	// Met are all limits that the request met, in the order of the rules. After a
	// store's error their decisions are zero.
	Met []Met
	// Missing is the part of Rule's key for lack of which the request was denied, or nil.
	Missing *Part
	// Err is the store's error, if it could not decide.
	Err error
}

// Met is one limit that a request met.
type Met struct {
	Rule     *Rule
	Request  sluice.Request
	Decision sluice.Decision
}

// Allowed reports whether the request passes.
func (v *Verdict) Allowed() bool { return v.Action == Allow }

// RetryAfter is when a denied request may come back, zero if it never may.
func (v *Verdict) RetryAfter() time.Duration { return v.Tightest.RetryAfter }

// Charges returns what the decision took, for a store to settle, cancel or
// release: one charge for each limit that was charged. That can be some of a denied
// request too, by rules in shadow.
func (v *Verdict) Charges() []sluice.Charge {
	var charges []sluice.Charge
	for i := range v.Met {
		if m := &v.Met[i]; m.charged(v.Action) {
			charges = append(charges, m.Request.Charge(&m.Decision))
		}
	}
	return charges
}

// charged reports whether the limit was charged, in a batch with this outcome.
func (m *Met) charged(batch Action) bool {
	return m.Decision.Allowed && m.Request.Cost > 0 && !m.Request.Peek && (batch == Allow || m.Request.Shadow)
}

// fold makes the verdict of the decisions.
func (v *Verdict) fold() {
	tightest := -1
	for i := range v.Met {
		if v.Met[i].Rule.Shadow {
			continue
		}
		if tightest < 0 || v.Met[i].tighter(&v.Met[tightest]) {
			tightest = i
		}
		v.Delay = max(v.Delay, v.Met[i].Decision.Delay)
	}
	if tightest < 0 {
		return
	}
	m := &v.Met[tightest]
	v.Rule, v.Tightest, v.TightestLimit, v.Reason = m.Rule, m.Decision, m.Request.Limit, m.Decision.Reason
	if !m.Decision.Allowed {
		v.Action, v.Delay = Deny, 0
	}
}

// tighter reports whether m binds its client more than o does. Of equals, the one
// that was first does.
func (m *Met) tighter(o *Met) bool {
	a, b := &m.Decision, &o.Decision
	if a.Allowed != b.Allowed {
		return b.Allowed
	}
	if !a.Allowed {
		if never := a.Reason == sluice.ReasonNever; never != (b.Reason == sluice.ReasonNever) {
			return never
		}
		return a.RetryAfter > b.RetryAfter
	}
	if a.Remaining != b.Remaining {
		return a.Remaining < b.Remaining
	}
	if a.Remaining > 0 && a.Limit != b.Limit {
		return a.Limit > b.Limit // a smaller share remains
	}
	return a.ResetAfter > b.ResetAfter
}
