package policy

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/faults"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy/internal/keys"
	"github.com/sluicehq/sluice/policy/internal/paths"
)

// Decide decides all limits of all rules that match a request, in one step: all limits are charged, or
// none is. If the store cannot decide, the verdict follows Rule.OnStoreError, and has the error in
// Verdict.Err.
//
// Rules that degrade or mark are decided beside the other rules. Their charges are given back if
// another rule refuses the request.
func (p *Policy) Decide(ctx context.Context, store sluice.Store, a *Attributes) Verdict {
	return p.decide(ctx, store, a, false)
}

// Peek returns the verdict that Decide would return, and takes nothing.
func (p *Policy) Peek(ctx context.Context, store sluice.Store, a *Attributes) Verdict {
	return p.decide(ctx, store, a, true)
}

func (p *Policy) decide(ctx context.Context, store sluice.Store, a *Attributes, peek bool) (v Verdict) {
	if p.plain != nil {
		p.plain.decide(ctx, store, a, peek, &v)
	} else {
		p.decideRules(ctx, store, a, peek, &v)
	}
	v.policy = p
	return v
}

func (p *Policy) decideRules(ctx context.Context, store sluice.Store, a *Attributes, peek bool, v *Verdict) {
	s := newScratch()
	defer s.free()
	s.peek, s.store = peek, store
	if p.begin(s, a, v) {
		return
	}
	class := v.Class
	denied := p.match(s, false)
	var err error
	if denied == nil && s.postponed {
		if !s.matching.marked {
			s.matching.marked, err = s.marked(ctx, store)
		}
		denied = p.match(s, true)
	}
	switch {
	case denied != nil:
		s.giveBack(ctx, store)
		*v = *denied
	case p.isDefault(s):
		s.giveBack(ctx, store)
		p.decideDefault(v)
	default:
		s.decide(ctx, store, v, err)
	}
	v.Class, v.UnknownPlan = class, s.unknownPlan
}

// LimitsFor returns the limits that apply to a request, with the requests that Decide would send to a
// store. A result has a decision only if it needs no store: by a list, or by a rule that is Always
// limited. A request counts as marked only if an earlier hop has marked it. LimitsFor returns nil for a
// request that Decide would refuse because it lacks a part of a key.
func (p *Policy) LimitsFor(a *Attributes) []LimitResult {
	s := newScratch()
	defer s.free()
	s.peek, s.listsToo = true, true
	var v Verdict
	if p.begin(s, a, &v) || p.match(s, false) != nil || s.postponed && p.match(s, true) != nil || p.isDefault(s) {
		return nil
	}
	s.fill(false)
	return s.results()
}

// begin cleans the attributes of a request and finds its class. It reports whether the request bypasses
// the rules, or is refused whatever they say.
func (p *Policy) begin(s *scratch, given *Attributes, v *Verdict) (bypass bool) {
	s.attributes, s.hold = *given, given.Hold
	a := &s.attributes
	a.learn()
	a.modelCost = p.modelCost
	a.Host, a.ClientIP = spelling.Host(a.Host), a.ClientIP.Unmap()
	s.client = a.ClientIP
	clean, others, f := p.paths.Variants(a.Path)
	s.variants = append(s.variants[:0], variant{path: clean, merged: clean, class: noClass})
	for _, path := range others {
		s.variants = append(s.variants, variant{path: path, merged: paths.Merge(path), class: noClass})
	}
	s.matching, s.class = matching{Attributes: a, class: noClass, marked: a.Marked, pressure: p.pressure}, noClass
	a.Path = clean
	if f != (faults.Fault{}) {
		v.Refused = refuse("path", f)
		v.Deny(sluice.ReasonNever, nil, nil)
		return true
	}
	if len(s.variants) > 1 || a.ReadOnce {
		a.memo = &s.memo
	}
	if len(p.classes) == 0 {
		return false
	}
	v.Bypass = p.classify(s)
	v.Class = p.className(s.class)
	p.turn(s, 0)
	return v.Bypass
}

// match collects the rules that match a request: first all rules that do not depend on marks, and then
// the rules that do. If the request is refused without the store, it returns the verdict.
//
// All variants of the path are matched. A rule is collected once for each key.
func (p *Policy) match(s *scratch, marks bool) (denied *Verdict) {
	if len(s.variants) == 1 {
		denied = p.matchVariant(s, marks)
	} else {
		denied = p.matchVariants(s, marks)
	}
	if marks || len(s.variants) > 1 {
		slices.SortStableFunc(s.selected, func(a, b selection) int { return cmp.Compare(a.rule.index, b.rule.index) })
	}
	return denied
}

// matchVariants collects the rules for all variants that do not bypass the rules.
func (p *Policy) matchVariants(s *scratch, marks bool) *Verdict {
	matched, strayed := false, false
	for i := range s.variants {
		r := &s.variants[i]
		if p.bypasses(r.class) {
			continue
		}
		p.turn(s, i)
		if denied := p.matchVariant(s, marks); denied != nil {
			return denied
		}
		r.matched, r.certain = s.matched, s.certain
		matched, strayed = matched || r.matched, strayed || !r.certain
	}
	s.matched, s.strayed = matched, strayed
	return nil
}

// matchVariant collects the rules for one variant of the path.
func (p *Policy) matchVariant(s *scratch, marks bool) *Verdict {
	a, merged := &s.attributes, s.variants[s.variant].merged
	if !marks || len(s.variants) > 1 {
		s.found = p.index.find(a, merged, s.found[:0])
	}
	for _, e := range s.found {
		r := p.rules[e.rule()]
		if r.match.usesMark != marks {
			s.postponed = s.postponed || r.match.usesMark
			continue
		}
		met := r.match.matches(&s.matching)
		if met == no {
			continue
		}
		s.sure = met == yes && (len(merged) == len(a.Path) || r.match.matchesPath(a.Path))
		s.read(r, e.pattern())
		if denied := s.add(r, s.class, s.costOf(r, a), a.MaxWait); denied != nil {
			return denied
		}
	}
	return nil
}

// decideDefault decides about a request that no rule matches.
func (p *Policy) decideDefault(v *Verdict) {
	if v.Reason = sluice.ReasonNoRule; p.fallback == Deny {
		v.Deny(v.Reason, nil, nil)
	}
}

// isDefault reports whether the default decides, because no rule matches. If the default is Deny, one
// path variant without a rule is enough.
func (p *Policy) isDefault(s *scratch) bool {
	strayed := s.strayed || len(s.variants) == 1 && !s.certain
	return !s.matched || strayed && p.fallback == Deny
}

// marked decides the rules that mark, and reports whether one of them marks the request.
func (s *scratch) marked(ctx context.Context, store sluice.Store) (bool, error) {
	for i := range s.selected {
		if q := &s.selected[i]; q.rule.marks() && q.reason != sluice.ReasonNone {
			return true, nil // without the store
		}
	}
	s.fill(true)
	if err := s.put(ctx, store); err != nil {
		return false, err
	}
	for i := range s.decisions {
		if !s.decisions[i].Allowed && s.requests[i].Shadow && s.roleOf(i) == RoleAdvisory {
			return true, nil
		}
	}
	return false, nil
}

// decide lets the store decide the selected rules, and folds the decisions. err is the error of an
// earlier call.
func (s *scratch) decide(ctx context.Context, store sluice.Store, v *Verdict, err error) {
	s.fill(false)
	switch {
	case err != nil:
	case s.ahead:
		err = s.putAhead(ctx, store)
	default:
		err = s.put(ctx, store)
	}
	s.fold(v, err)
	if v.Action == Deny {
		v.giveBack(ctx, store)
	}
}

// fold makes the verdict from the decisions. err is the store's error.
func (s *scratch) fold(v *Verdict, err error) {
	v.Results, v.Paced = s.results(), s.paced()
	if err != nil {
		v.fail(err)
	} else {
		v.fold()
	}
}

// giveBack gives back the charges of rules that mark, if the request is refused before the other rules
// are decided.
func (s *scratch) giveBack(ctx context.Context, store sluice.Store) {
	if len(s.decisions) == 0 {
		return
	}
	for i := range s.decisions {
		if s.roleOf(i) != RoleAdvisory {
			continue
		}
		m := LimitResult{Request: s.requests[i], Decision: s.decisions[i], Role: RoleAdvisory}
		_ = m.GiveBack(ctx, store)
	}
}

// giveBack gives back the charges of a request that is refused: the charges of rules that degrade or mark, and of quotas.
// Other enforced limits have charges only if quotas refuse a call. A charge that cannot be given back stays among the
// Charges. See docs/adr/0012.
func (v *Verdict) giveBack(ctx context.Context, store sluice.Store) {
	for i := range v.Results {
		switch m := &v.Results[i]; m.Role {
		case RoleAdvisory, RoleQuota, RoleEnforced:
			if !m.Request.Debit {
				_ = m.GiveBack(ctx, store)
			}
		}
	}
}

// fail makes the verdict for a request that the store could not decide.
func (v *Verdict) fail(err error) {
	v.Err, v.Reason = err, sluice.ReasonStoreError
	var bad *sluice.RequestError
	// An invalid request is not a failure of the store, so OnStoreError does not apply.
	refused := errors.As(err, &bad)
	if refused {
		v.Reason = sluice.ReasonNever
	}
	for i := range v.Results {
		m := &v.Results[i]
		// Decisions that needed no store hold.
		decided := m.Decision.Reason != sluice.ReasonNone
		advisory := m.Role == RoleAdvisory && (decided || m.Rule.OnStoreError == sluice.FallbackDeny)
		switch {
		case advisory && m.Rule.WhenLimited.Action == Mark && v.Mark == nil:
			v.Mark, v.Action = m.Rule, max(v.Action, Mark)
		case advisory && m.Rule.WhenLimited.Action == Degrade && v.Degrade == nil:
			v.Degrade, v.Action = m.Rule, Degrade
		}
		if m.Role != RoleEnforced || m.Listed == ListAllow {
			continue
		}
		if v.Rule == nil {
			v.Rule = m.Rule
		}
		denied := decided && !m.Decision.Allowed // for certain: see driver.DenialError
		switch {
		case denied && !refused:
			v.Deny(m.Decision.Reason, m.Rule, m)
		case refused || denied || m.Rule.OnStoreError == sluice.FallbackDeny:
			v.Deny(v.Reason, m.Rule, nil)
		default:
			continue
		}
		return
	}
}

// decide does what Policy.decide does. It is faster, and is only for a policy of one plain rule.
func (r *rule) decide(ctx context.Context, store sluice.Store, given *Attributes, peek bool, v *Verdict) {
	s := newScratch()
	a := s.take(given)
	first := r.valueOf(&r.parts[0], a, 0)
	ref, missing, repeated := keys.Text(first.Text), (*Part)(nil), false
	if len(r.parts) > 1 || !first.OK || first.Addr.IsValid() {
		s.values = append(s.values, first)
		for i := range r.parts[1:] {
			s.values = append(s.values, r.valueOf(&r.parts[1+i], a, 0))
		}
		ref, missing, repeated = s.makeKey(r.parts)
	}
	cost := r.Cost.of(a)
	switch {
	case missing != nil && missing.OnMissing == MissingSkip && !repeated:
		v.Reason = sluice.ReasonNoRule
	case missing != nil:
		*v = *missingDenial(r, missing, repeated)
	case cost < 0:
		*v = *negativeDenial(r)
	default:
		one := new([1]LimitResult) // cheaper to allocate than a slice
		v.Results = one[:]
		m := &one[0]
		m.Rule = &r.Rule
		r.limits.request(&m.Request, 0, ref.Key(s.keys.String()), cost, noClass, peek)
		m.Request.MaxWait = shorter(a.MaxWait, r.MaxWait)
		hold(&m.Request, given.Hold)
		if ref.IsLacking() {
			m.Request.Ban = unearned(m.Request.Ban)
		}
	}
	s.freePlain()
	if len(v.Results) == 0 {
		return
	}
	m := &v.Results[0]
	if !peek && r.returns(r.limits.kinds[0]) {
		var cancel context.CancelFunc
		ctx, cancel = outlast(ctx)
		defer cancel()
	}
	var err error
	if m.Decision, err = store.Decide(ctx, m.Request); err != nil {
		m.Decision = sluice.Decision{}
		v.fail(err)
		return
	}
	if !m.Decision.Allowed {
		v.fold()
		return
	}
	// What fold does for one limit that allows.
	v.Rule, v.Tightest, v.TightestLimit, v.Reason, v.Delay = m.Rule, m.Decision, m.Request.Limit, m.Decision.Reason, m.Decision.Delay
}

// freePlain frees the scratch after a decision by a plain rule, which used little of it.
func (s *scratch) freePlain() {
	if !s.keys.IsEmpty() {
		s.free()
		return
	}
	if s.whole {
		s.attributes, s.whole = Attributes{}, false
	} else {
		s.attributes.Values = nil
	}
	if len(s.values) > 0 {
		clear(s.values)
		s.values = s.values[:0]
	}
	scratches.Put(s)
}

// take copies the attributes of a request for a plain rule. Often few are set, and a copy of all would
// take longer than the rest of the work.
func (s *scratch) take(given *Attributes) *Attributes {
	a := &s.attributes
	if len(given.Method)+len(given.Host)+len(given.Path) > 0 || given.ClientIP.IsValid() {
		*a, s.whole = *given, true
		a.Host, a.ClientIP = spelling.Host(a.Host), a.ClientIP.Unmap()
		return a
	}
	a.Values, a.Marked, a.RequestBytes, a.Cost, a.MaxWait = given.Values, given.Marked, given.RequestBytes, given.Cost, given.MaxWait
	return a
}
