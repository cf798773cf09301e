package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Verdict is all decisions about a request folded into one action, with the
// explanation. The zero Verdict allows, by no rule.
// It belongs to one request, and is not safe for concurrent use.
type Verdict struct {
	// Action is what happens to the request.
	Action Action
	// Reason is the reason of the tightest decision, if limits decided. Otherwise it is ReasonNoRule if no rule
	// matched, and ReasonStoreError if the store could not decide. ReasonMissingKey means that a part of the key is
	// missing, ReasonRepeatedKey that it has several values, ReasonListed that a list denies the request, and
	// ReasonNever that no store could decide it.
	Reason sluice.Reason
	// Class is the name of the request's class, empty for none. Bypass says that the class bypasses all
	// rules.
	Class  string
	Bypass bool
	// UnknownPlan says that a rule applies that plans have numbers for, and that the request names a plan that the
	// policy does not have, or several. The rule's own numbers count then, or it limits the request: see
	// Options.DenyUnknownPlans.
	UnknownPlan bool
	// Rule is the rule that decided whether the request passes: the rule of the tightest limit, nil
	// for none. Rules that degrade or mark do not count.
	Rule *Rule
	// Degrade and Mark are the first rule that degrades a request that passes, and the first rule that
	// marks it; nil for none. Their WhenLimited has the details.
	Degrade, Mark *Rule
	// Tightest is the decision that fills the headers: the denial with the longest wait or, without
	// denials, the decision with the fewest units remaining. Its Limit is zero if no limit applies.
	// Only limits that are enforced count.
	Tightest sluice.Decision
	// TightestLimit is the limit of Tightest, nil if no limit applies.
	TightestLimit *sluice.Limit
	// Delay is the longest delay of all enforced limits; zero for a denied request.
	Delay time.Duration
	// Waited is how long the request has waited in a gate, for its delay and for leases, before it passed or was refused.
	Waited time.Duration
	// Results are the results of all limits that apply, in the order of the rules. After a store's
	// error, decisions that the store did not make are zero.
	Results []LimitResult
	// Paced are the rules with a Bandwidth that apply to a request that passes, and their keys.
	Paced []Paced
	// Missing is the part of Rule's key that the request lacks, or has several times, if it was denied for
	// that; otherwise nil.
	Missing *Part
	// Err is the store's error, if it could not decide.
	Err error
	// Refused says why a request is refused whatever the rules say: it is an *AttributeError for a request
	// that services read differently than rules do, and a *gate.Error for a request that could not wait. Nil
	// for all other requests.
	Refused error

	policy *Policy
}

// Policy returns the policy that decided; nil if none did, because the request was refused before. What follows from a
// verdict follows from this policy, also if another one is in force by then.
func (v *Verdict) Policy() *Policy { return v.policy }

// Allowed reports whether the request passes, even degraded or marked.
func (v *Verdict) Allowed() bool { return v.Action != Deny }

// Known reports whether the numbers of Tightest are of the key: a limit applies, and the store decided about it. After
// a fallback's decision, what remains and when the limit is full again are not known, and clients should not get them.
func (v *Verdict) Known() bool {
	return v.TightestLimit != nil && v.Err == nil && !v.Tightest.Degraded
}

// FellBack reports whether a fallback decided about a limit, because the store did not.
func (v *Verdict) FellBack() bool {
	for i := range v.Results {
		if v.Results[i].Decision.Degraded {
			return true
		}
	}
	return false
}

// PaidAhead reports whether an allowance paid for what a limit lacked.
func (v *Verdict) PaidAhead() bool {
	return slices.ContainsFunc(v.Results, func(m LimitResult) bool { return m.Ahead != nil })
}

// RetryAfter returns the time after which a denied request may come back, zero if it never may.
func (v *Verdict) RetryAfter() time.Duration { return v.Tightest.RetryAfter }

// Deny turns the verdict into a denial by a rule, nil for none. It clears the fields that are for
// requests that pass. The decision of result becomes Tightest. Tightest stays as it is if result is nil, or was denied
// by a list or a rule that is Always limited, because then no limit was counted.
func (v *Verdict) Deny(reason sluice.Reason, rule *Rule, result *LimitResult) {
	v.Action, v.Reason, v.Rule = Deny, reason, rule
	v.Delay, v.Degrade, v.Mark, v.Paced = 0, nil, nil, nil
	if result != nil && result.Listed != ListDeny {
		v.Tightest, v.TightestLimit = result.Decision, result.Request.Limit
	}
}

// Abandoned reports whether the client left before the store had decided, or while its request
// waited. Nobody is left to be answered, and neither a limit nor the store is at fault.
func (v *Verdict) Abandoned() bool {
	return errors.Is(v.Err, context.Canceled) || errors.Is(v.Refused, context.Canceled)
}

// Charges returns the charges of the request, which a store can settle, cancel or release: one for each
// limit that was charged. A denied request can have charges too: by rules in shadow, and by other rules
// if a charge could not be given back.
func (v *Verdict) Charges() []sluice.Charge {
	var charges []sluice.Charge
	for i := range v.Results {
		if m := &v.Results[i]; m.Charged() {
			charges = append(charges, m.Charge())
		}
	}
	return charges
}

// fold makes the verdict from the decisions.
func (v *Verdict) fold() {
	tightest := -1
	for i := range v.Results {
		m := &v.Results[i]
		switch m.action() {
		case Mark:
			if v.Mark == nil {
				v.Mark = m.Rule
			}
		case Degrade:
			if v.Degrade == nil {
				v.Degrade = m.Rule
			}
		}
		if m.Role != RoleEnforced || m.Listed == ListAllow {
			continue
		}
		if tightest < 0 || m.tighter(&v.Results[tightest]) {
			tightest = i
		}
		v.Delay = max(v.Delay, m.Decision.Delay)
	}
	if v.Mark != nil {
		v.Action = Mark
	}
	if v.Degrade != nil {
		v.Action = Degrade
	}
	if tightest < 0 {
		return
	}
	m := &v.Results[tightest]
	if !m.Decision.Allowed {
		v.Deny(m.Decision.Reason, m.Rule, m)
		for i := range v.Results {
			// A shadow request and a debit are charged whatever other limits decide.
			r := &v.Results[i].Request
			v.Results[i].Uncharged = v.Results[i].Decision.Allowed && !r.Shadow && !r.Debit
		}
		return
	}
	v.Rule, v.Tightest, v.TightestLimit, v.Reason = m.Rule, m.Decision, m.Request.Limit, m.Decision.Reason
}

// tighter reports whether m limits its client more than o does. It reports false if both are equal, so
// the first one stays.
func (m *LimitResult) tighter(o *LimitResult) bool {
	return m.Decision.Tighter(&o.Decision)
}

// String returns the verdict in a line, for logs and tests: the action, why, and the numbers of the
// tightest limit. It contains no key.
func (v *Verdict) String() string {
	var b strings.Builder
	b.Grow(96)
	b.WriteString(v.Action.String())
	switch {
	case v.Bypass:
		fmt.Fprintf(&b, ": class %s bypasses all rules", v.Class)
	case v.Reason == sluice.ReasonNoRule:
		b.WriteString(": no rule matches")
	case v.Missing != nil && v.Reason == sluice.ReasonRepeatedKey:
		fmt.Fprintf(&b, ": rule %s: the key's part %s has several values, or an unclear one", v.nameOf(v.Rule), v.Missing)
	case v.Missing != nil:
		fmt.Fprintf(&b, ": rule %s: the key's part %s is missing", v.nameOf(v.Rule), v.Missing)
	case v.Err != nil && v.Reason == sluice.ReasonStoreError:
		b.WriteString(": the store could not decide")
		if v.Rule != nil {
			fmt.Fprintf(&b, "; on_store_error of rule %s is %s", v.nameOf(v.Rule), v.Rule.OnStoreError)
		}
	case v.Err != nil:
		fmt.Fprintf(&b, ": %v", v.Err)
	case v.Action == Deny && v.Rule != nil:
		b.WriteString(": rule " + v.nameOf(v.Rule) + ": " + v.Reason.String())
	case v.Degrade != nil:
		fmt.Fprintf(&b, ": rule %s", v.nameOf(v.Degrade))
	case v.Mark != nil:
		fmt.Fprintf(&b, ": rule %s", v.nameOf(v.Mark))
	case v.Rule != nil:
		b.WriteString(": the tightest rule is " + v.nameOf(v.Rule))
	}
	if v.Known() {
		b.WriteString(", " + strconv.FormatInt(v.Tightest.Remaining, 10) + " of " + strconv.FormatInt(v.Tightest.Limit, 10) + " remain")
	}
	if v.UnknownPlan {
		b.WriteString(", the plan is unknown")
	}
	if v.PaidAhead() {
		b.WriteString(", by units ahead")
	}
	if v.FellBack() {
		b.WriteString(", decided by a fallback")
	}
	if v.Delay > 0 {
		fmt.Fprintf(&b, ", after a delay of %v", v.Delay)
	}
	if wait := v.RetryAfter(); wait > 0 {
		fmt.Fprintf(&b, ", retry after %v", wait)
	}
	return b.String()
}

// nameOf returns the name of a rule, or of the tightest limit for a single rule without a name.
func (v *Verdict) nameOf(r *Rule) string {
	if r.Name == "" && v.TightestLimit != nil {
		return v.TightestLimit.Name()
	}
	return r.Name
}

// LimitResult is what one limit decided about a request. It belongs to one request, and is not safe for concurrent use.
type LimitResult struct {
	// Rule is the rule whose limit it is.
	Rule *Rule
	// Request is the request to the store, and Decision is the store's decision.
	Request  sluice.Request
	Decision sluice.Decision
	// Role says what the decision is for.
	Role Role
	// Listed says that the key or the client is on a list of the rule. The store did not decide then,
	// and Request has only the rule's first limit. A rule that is Always limited treats every client as
	// on the list to deny, but with ReasonLimited. Its Request has a limit that is never used.
	Listed List
	// Override says that the numbers, or the list, come from an override of the rule, or of the policy's table.
	Override bool
	// From says where the numbers, or the list, come from.
	From NumbersFrom
	// Uncharged says that the limit would let the request pass, and was not charged because
	// another limit denied it.
	Uncharged bool
	// Returned says that the limit was charged, and the charge has been given back because the
	// request was refused after all.
	Returned bool
	// Ahead is set if the limit denied the request, and the allowance of the key paid for it. Then the decision allows,
	// its Remaining is of the allowance, and so is the charge, if there is one: an allowance pays once for all limits
	// of a rule.
	Ahead *PaidAhead

	plan *string
}

// action returns the action that follows from the decision.
func (m *LimitResult) action() Action {
	switch {
	case m.Decision.Allowed:
		return Allow
	case m.Role == RoleEnforced:
		return Deny
	case m.Role == RoleAdvisory:
		return m.Rule.WhenLimited.Action
	default:
		return Allow
	}
}

// Charged reports whether the limit was charged and the charge has not been given back.
func (m *LimitResult) Charged() bool {
	return m.Decision.Allowed && m.Request.Cost > 0 && !m.Request.Peek && !m.Uncharged && !m.Returned && (m.Ahead == nil || m.Ahead.request != nil)
}

// IsLease reports whether the charge is a lease of a concurrency limit.
func (m *LimitResult) IsLease() bool { return m.Request.Member != 0 && m.Charged() }

// Charge returns the charge, which the store can settle, cancel or release. It is of use only
// if the limit is Charged.
func (m *LimitResult) Charge() sluice.Charge {
	if m.Ahead != nil && m.Ahead.request != nil {
		return m.Ahead.request.Charge(&m.Decision)
	}
	return m.Request.Charge(&m.Decision)
}

// GiveBack gives back the charge of a request that is not handled, and sets Returned. It does nothing
// for a limit that is not Charged. The end of ctx does not stop it. After an error the limit is still
// Charged.
func (m *LimitResult) GiveBack(ctx context.Context, store sluice.Store) error {
	if !m.Charged() {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	var err error
	if m.IsLease() || m.Decision.Delay > 0 {
		err = store.Cancel(ctx, m.Charge())
	} else {
		err = sluice.ErrActed // it acted at once
	}
	if errors.Is(err, sluice.ErrActed) {
		err = store.Settle(ctx, m.Charge(), 0)
	}
	m.Returned = err == nil
	return err
}

// Settles reports whether the charge must be settled after the request has been handled, at the units
// that Actual returns.
func (m *LimitResult) Settles() bool {
	if m.Rule == nil || m.Rule.Always || m.Listed != NotListed || m.Request.Member != 0 {
		return false
	}
	s := m.Rule.Cost.Source
	return s.AfterResponse() || s == CostRequestBytes || len(m.Rule.CountStatus) > 0
}

// Actual returns how many units a handled request really cost; zero if its status does not count.
// m.Request.Cost units have been taken already, and an outcome that is not known gives none of them back.
func (m *LimitResult) Actual(o Outcome) int64 {
	taken := m.Request.Cost
	if !m.Settles() {
		return taken
	}
	if !o.Unknown && !m.Rule.counts(o.Status) {
		return 0
	}
	c := &m.Rule.Cost
	switch c.Source {
	case CostRequestBytes:
		least := int64(0)
		if o.Unknown {
			least = min(taken, c.Estimate) // the bytes that came are known; a declared size is not an estimate
		}
		return c.capped(max(least, o.RequestBytes))
	case CostResponseBytes:
		least := int64(0)
		if o.Unknown || o.Partial {
			least = taken
		}
		return max(least, c.capped(max(0, o.ResponseBytes)))
	case CostModel:
		return c.after(taken, o)
	case CostResponseHeader:
		if o.Header == nil || o.Unknown {
			return taken
		}
		if text, ok := o.Header(c.Header); ok {
			if n, ok := parseUnits(text); ok {
				return c.capped(n)
			}
		}
	}
	return taken
}
