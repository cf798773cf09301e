package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy/internal/keys"
)

// DecideDescriptors decides about all descriptors of a call, in one step: all limits are charged, or none is. Rules with
// Debit are charged in any case, and descriptors that only look charge nothing, nor do refunds. If the store cannot
// decide, each descriptor follows Rule.OnStoreError, and Verdict.Err has the error. A refund that fails is in
// DescriptorResult.Err.
//
// Quotas, and rules that degrade or mark, are decided beside the other rules. Their charges are given back if
// the call is refused. If all quotas refuse it, the charges of the other rules are given back. A debit is never given
// back.
func (p *Policy) DecideDescriptors(ctx context.Context, store sluice.Store, domain string, q []descriptors.Request) (v DescriptorVerdict) {
	d := p.domains[domain]
	v.Known, v.policy = d != nil, p
	v.Descriptors = make([]DescriptorResult, len(q))
	if d == nil {
		for i := range v.Descriptors {
			v.Descriptors[i].Allowed = true
		}
		v.Reason = sluice.ReasonNoRule
		return v
	}
	s := newScratch()
	defer s.free()
	c := call{scratch: s, domain: d, requests: q, v: &v}
	if c.match(); v.Refused == nil {
		c.decide(ctx, store)
	}
	v.UnknownPlan = c.unknownPlan
	return v
}

// call is the decision about the descriptors of one call.
type call struct {
	*scratch
	domain   *domain
	requests []descriptors.Request
	v        *DescriptorVerdict
	refunds  bool // some descriptor gives units back
	denied   bool // some descriptor is denied without the store
}

// match finds the rule of each descriptor, and selects it. The selections are in the order of the descriptors.
func (c *call) match() {
	replaces := false
	for i := range c.requests {
		q, d := &c.requests[i], &c.v.Descriptors[i]
		d.Allowed, d.Cost = true, q.Cost
		if d.Cost == 0 && !q.Look {
			d.Cost = 1
		}
		if d.Cost < 0 {
			c.v.Refused = &AttributeError{Attribute: "cost", Problem: "of a descriptor is negative", Remedy: "give 0 or more; to give units back, set Refund"}
		}
		var r *rule
		if q.Limit != nil {
			var err error
			r, err = c.domain.overrides.rule(*q.Limit)
			if d.Override = true; err != nil {
				c.v.Refused = err
			}
		} else if r = c.domain.find(q.Entries); r != nil && r.Exempt {
			r = nil
		}
		if c.v.Refused != nil {
			c.v.Deny(sluice.ReasonNever, nil, nil)
			return
		}
		c.rules = append(c.rules, r)
		if r == nil {
			continue
		}
		d.Rule = &r.Rule
		d.Unlimited = r.Unlimited
		replaces = replaces || len(r.Match.Descriptor.Replaces) > 0
	}
	for i := range c.requests {
		d := &c.v.Descriptors[i]
		if d.Rule == nil || d.Unlimited {
			continue
		}
		if replaces && d.Rule.Match.Descriptor.Label != "" && c.replaced(d.Rule.Match.Descriptor.Label) {
			d.Replaced = true
			continue
		}
		c.add(i)
	}
}

// replaced reports whether a matched rule replaces the rules of a label.
func (c *call) replaced(label string) bool {
	for i := range c.v.Descriptors {
		if r := c.v.Descriptors[i].Rule; r != nil && slices.Contains(r.Match.Descriptor.Replaces, label) {
			return true
		}
	}
	return false
}

// add selects the rule of a descriptor, with the key of its values.
func (c *call) add(i int) {
	q, d, r := &c.requests[i], &c.v.Descriptors[i], c.rules[i]
	c.values = c.values[:0]
	if d.Override { // the key is all keys and values
		for _, e := range q.Entries {
			c.values = append(c.values, keys.Value{Text: e.Key, OK: true}, keys.Value{Text: e.Value, OK: true})
		}
	} else {
		for j := range r.parts {
			value := keys.Value{Text: r.parts[j].Name, OK: true}
			if r.parts[j].Source == source.Descriptor {
				value.Text = q.Entries[r.entries[j]].Value
			}
			c.values = append(c.values, value)
		}
	}
	key := c.keys.Add(c.values, false)
	if c.plan = noPlan; r.byPlan && r.planFrom != nil {
		c.plan = r.planFrom.entry(q.Entries)
	}
	s := c.choose(r, key)
	s.descriptor, s.class, s.maxWait = i, noClass, sluice.NoWait
	s.cost, s.look = times(d.Cost, r.Cost.Units), q.Look || q.Refund
	if q.Refund {
		s.refund, s.cost, c.refunds = s.cost, 0, true
	}
	if s.reason != sluice.ReasonNone && s.refund == 0 && r.role == RoleEnforced {
		c.denied = true
	}
}

// times multiplies a cost by the units that the rule takes for each; zero units count as one.
func times(cost, each int64) int64 {
	if each <= 1 {
		return cost
	}
	if hi, lo := bits.Mul64(uint64(cost), uint64(each)); hi == 0 && lo <= math.MaxInt64 {
		return int64(lo)
	}
	return math.MaxInt64
}

// decide lets the store decide the selected rules, and folds the decisions.
func (c *call) decide(ctx context.Context, store sluice.Store) {
	if len(c.selected) == 0 {
		c.decideNothing()
		return
	}
	c.peek = c.denied // the store must take nothing for a call that a list already denies
	c.fill(false)
	put := c.put
	if c.ahead {
		put = c.putAhead
	}
	err := put(ctx, store)
	if c.refunds && err == nil {
		c.giveUnitsBack(ctx, store)
	}
	c.fold(&c.v.Verdict, err)
	c.foldDescriptors()
	if c.v.Action == Deny {
		c.v.giveBack(ctx, store)
	}
}

// decideNothing makes the verdict about a call to which no limit applies.
func (c *call) decideNothing() {
	c.v.Reason = sluice.ReasonNoRule
	for i := range c.v.Descriptors {
		if d := &c.v.Descriptors[i]; d.Rule != nil {
			c.v.Rule, c.v.Reason = d.Rule, sluice.ReasonNone
			return
		}
	}
}

// foldDescriptors gives each descriptor its results, and refuses the call if all quotas do.
func (c *call) foldDescriptors() {
	next, quotas, over := c.v.Results, 0, 0
	var tightest *LimitResult // of the quotas
	for i := range c.selected {
		s := &c.selected[i]
		d, n := &c.v.Descriptors[s.descriptor], s.results()
		d.Results, next = next[:n:n], next[n:]
		d.fold(c.v.Err, s.refund > 0)
		if c.requests[s.descriptor].Refund && c.v.Err != nil {
			d.Err = c.v.Err
		}
		if !s.rule.Match.Descriptor.Quota || s.rule.role != RoleQuota && s.rule.role != RoleShadow || s.refund > 0 {
			continue
		}
		if quotas++; d.Allowed { // a quota in shadow lets every call pass
			continue
		}
		over++
		if d.Deciding != nil && (tightest == nil || d.Deciding.tighter(tightest)) {
			tightest = d.Deciding
		}
	}
	if quotas == 0 || over < quotas || c.v.Action == Deny {
		return
	}
	switch {
	case c.v.Err != nil:
		c.v.Deny(c.v.Reason, c.firstQuota(), nil)
	case tightest != nil:
		c.v.Deny(tightest.Decision.Reason, tightest.Rule, tightest)
	}
}

// firstQuota returns the rule of the first quota.
func (c *call) firstQuota() *Rule {
	for i := range c.selected {
		if c.selected[i].rule.role == RoleQuota {
			return &c.selected[i].rule.Rule
		}
	}
	return nil
}

// fold finds the deciding limit of a descriptor.
func (d *DescriptorResult) fold(err error, refund bool) {
	for i := range d.Results {
		m := &d.Results[i]
		if m.Role == RoleCandidate {
			continue
		}
		if d.Deciding == nil || m.tighter(d.Deciding) {
			d.Deciding = m
		}
	}
	m := d.Deciding
	if m == nil {
		return
	}
	d.Rate = m.Request.Limit.Rate()
	if d.Rule.Always {
		d.Rate = sluice.Per(0, d.Rule.Match.Descriptor.AlwaysPeriod())
	}
	decided := m.Decision.Allowed || m.Decision.Reason != sluice.ReasonNone
	switch {
	case refund:
		return
	case err != nil && !decided:
		d.Over = d.Rule.OnStoreError == sluice.FallbackDeny
	default:
		d.Over = !m.Decision.Allowed
	}
	d.Allowed = !d.Over || m.Role != RoleEnforced && m.Role != RoleQuota
}

// giveUnitsBack carries out the refunds, and decides their requests again, which still take nothing.
func (c *call) giveUnitsBack(ctx context.Context, store sluice.Store) {
	for i := range c.selected {
		s := &c.selected[i]
		if s.refund == 0 || !s.filled {
			continue
		}
		d := &c.v.Descriptors[s.descriptor]
		d.Err = s.giveBack(ctx, store, s.refund, c.scratch.requests)
		d.Refunded = d.Err == nil
		out := make([]sluice.Decision, s.results())
		if err := store.DecideAll(ctx, c.scratch.requests[s.at:s.at+len(out)], out); err != nil {
			d.Err = errors.Join(d.Err, err)
			continue
		}
		copy(c.decisions[s.at:], out)
	}
}

// giveBack gives units of the newest charges back to all limits of a rule. If one algorithm cannot take them, none gets
// them. Candidates may be such limits.
func (q *selection) giveBack(ctx context.Context, store sluice.Store, units int64, requests []sluice.Request) error {
	for j := range q.set.requests {
		if l := q.set.requests[j].Limit; !l.TakesDebits() && q.set.kinds[j].role != RoleCandidate {
			return fmt.Errorf("policy: rule %q: a %s cannot take units back: %w", q.rule.Name, kindName(l), errors.ErrUnsupported)
		}
	}
	var errs []error
	given := false
	for j := range q.set.requests {
		r := &requests[q.at+j]
		if r.Limit.TakesDebits() {
			charge := sluice.Charge{Limit: r.Limit, Key: r.Key, Cost: units, Receipt: sluice.Receipt{At: algo.Newest}}
			err := store.Settle(ctx, charge, 0)
			given, errs = given || err == nil, append(errs, err)
		}
	}
	err := errors.Join(errs...)
	if err != nil && given {
		err = fmt.Errorf("%w: some limits have the units: %w", sluice.ErrUnknownOutcome, err)
	}
	return err
}

// kindName returns the algorithm of a limit in words.
func kindName(l *sluice.Limit) string {
	switch l.Params().Kind {
	case algo.KindLeaky:
		return "leaky bucket"
	default:
		return "concurrency limit"
	}
}
