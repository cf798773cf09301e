package policy

import (
	"context"
	"reflect"

	"github.com/sluicehq/sluice"
)

// Single compiles a policy of one rule. The rule needs no name. Its limits keep their own names, which
// must differ because state is kept under them. Single is for programs that have limits and a key, and
// no rules.
func Single(r Rule) (*Policy, error) {
	c := &compiler{options: Options{Rules: []Rule{r}, OnStoreError: r.OnStoreError}, index: -1, single: true}
	return c.policy()
}

// isPlain reports whether a rule decides each request only by one limit and its key.
func (r *rule) isPlain() bool {
	for i := range r.parts {
		switch p := &r.parts[i]; p.Source {
		case FromPath, FromParam, FromRoute:
			if p.Value == nil {
				return false // the path has variants
			}
		}
	}
	return reflect.ValueOf(r.Match).IsZero() && len(r.limits.requests) == 1 && !r.Always && !r.hasLists && len(r.overrides)+len(r.Reserved) == 0 &&
		r.Bandwidth == nil && r.role == RoleEnforced
}

// decide does what Policy.decide does. It is faster, and is only for a policy of one plain rule.
func (r *rule) decide(ctx context.Context, store sluice.Store, given *Attributes, peek bool, v *Verdict) {
	s := newScratch()
	a := s.take(given)
	first := r.valueOf(&r.parts[0], a, 0)
	ref, missing := keyRef{text: first.text, parts: 1}, (*Part)(nil)
	if len(r.parts) > 1 || !first.ok || first.addr.IsValid() {
		s.values = append(s.values, first)
		for i := range r.parts[1:] {
			s.values = append(s.values, r.valueOf(&r.parts[1+i], a, 0))
		}
		ref, missing = s.makeKey(r.parts)
	}
	cost := r.Cost.of(a)
	switch {
	case missing != nil && missing.OnMissing == MissingSkip && !ref.repeated:
		v.Reason = sluice.ReasonNoRule
	case missing != nil:
		*v = *missingDenial(r, missing, ref.repeated)
	case cost < 0:
		*v = *negativeDenial(r)
	default:
		one := new([1]LimitResult) // cheaper to allocate than a slice
		v.Results = one[:]
		m := &one[0]
		m.Rule = &r.Rule
		r.limits.request(&m.Request, 0, ref.key(string(s.key)), cost, noClass, peek)
		m.Request.MaxWait = shorter(a.MaxWait, r.MaxWait)
		if ref.lacking {
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
	if len(s.key) > 0 {
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
		a.Host, a.ClientIP = CleanHost(a.Host), a.ClientIP.Unmap()
		return a
	}
	a.Values, a.Marked, a.RequestBytes, a.Cost, a.MaxWait = given.Values, given.Marked, given.RequestBytes, given.Cost, given.MaxWait
	return a
}
