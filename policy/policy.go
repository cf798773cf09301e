package policy

import (
	"context"
	"strings"

	"github.com/sluicehq/sluice"
)

// Options make a Policy.
type Options struct {
	// Rules in the order in which verdicts explain them. Their order does not change
	// what is decided. The policy keeps what they point to, which is not to be changed.
	Rules []Rule
	// Default is what becomes of a request that no rule matches. Default: Allow.
	Default Action
	// OnStoreError is for the rules that do not say. Default: FallbackAllow.
	OnStoreError Fallback
	// IPv6Prefix is how many bits of an IPv6 client address count, for the parts that
	// do not say. Default: 64, which is what one customer usually holds.
	IPv6Prefix int
	// Paths says how paths are cleaned.
	Paths Paths
}

// Policy is a set of rules, compiled. It is immutable and safe for concurrent use;
// to change the rules, make another one and swap the pointer: limits of the same
// name go on with the state that is there.
//
// Most callers want Decide. Those that are told the rule and the key, and not
// the request, want DecideRule.
type Policy struct {
	rules    []*rule
	byName   map[string]*rule
	index    index
	paths    Paths
	fallback Action // when no rule matches

	onStoreError Fallback // of limits that are no rule's
}

// Decide decides all limits of all rules that a request meets as one: all are
// charged, or none is. What the store cannot decide is in the verdict: see
// Rule.OnStoreError and Verdict.Err.
func (p *Policy) Decide(ctx context.Context, store sluice.Store, a *Attributes) Verdict {
	return p.decide(ctx, store, a, false)
}

// Peek answers as Decide would, and takes nothing.
func (p *Policy) Peek(ctx context.Context, store sluice.Store, a *Attributes) Verdict {
	return p.decide(ctx, store, a, true)
}

func (p *Policy) decide(ctx context.Context, store sluice.Store, a *Attributes, peek bool) Verdict {
	s := newScratch()
	defer s.free()
	v, decided := p.ask(s, a, peek)
	if !decided {
		s.decide(ctx, store, &v)
	}
	return v
}

// Meets returns the limits that a request meets, with the requests that Decide
// would put to a store and no decisions.
func (p *Policy) Meets(a *Attributes) []Met {
	s := newScratch()
	defer s.free()
	if _, decided := p.ask(s, a, true); decided {
		return nil
	}
	return s.met()
}

// ask finds out what a request asks of the store. If that need not be asked, it
// returns the verdict.
func (p *Policy) ask(s *scratch, given *Attributes, peek bool) (v Verdict, decided bool) {
	s.attributes = *given
	a := &s.attributes
	a.Path, a.Host, a.ClientIP = p.paths.Clean(a.Path), CleanHost(a.Host), a.ClientIP.Unmap()
	s.found = p.index.find(a, s.found[:0])
	matched := false
	for _, e := range s.found {
		r := p.rules[e.rule()]
		if !r.match.matches(a) {
			continue
		}
		s.values = s.values[:0]
		for i := range r.parts {
			s.values = append(s.values, r.valueOf(&r.parts[i], a, e.pattern()))
		}
		skip, denied := s.add(r, r.Cost.of(a), a.MaxWait, peek)
		if denied != nil {
			return *denied, true
		}
		matched = matched || !skip
	}
	if !matched {
		return Verdict{Action: p.fallback, Reason: sluice.ReasonNoRule}, true
	}
	return v, len(s.asked) == 0
}

// Rule returns the rule of a name, or nil. It is not to be changed.
func (p *Policy) Rule(name string) *Rule {
	if r := p.byName[name]; r != nil {
		return &r.Rule
	}
	return nil
}

// Fallback returns what becomes of a request to a limit when the store cannot decide:
// that of the rule under whose name the limit is kept, or of the policy for other limits. It is
// FallbackAllow, FallbackDeny or FallbackLocal, and meant for what stands over the store,
// as package guard. It also knows the limits of an earlier policy, by their names.
func (p *Policy) Fallback(l *sluice.Limit) Fallback {
	name, _, _ := strings.Cut(l.Name(), "/") // see compiler.nameLimits
	if r := p.byName[name]; r != nil {
		return r.OnStoreError
	}
	return p.onStoreError
}

// Rules returns all rules in their order, with the limits as the policy names
// them. They are not to be changed.
func (p *Policy) Rules() []*Rule {
	rules := make([]*Rule, len(p.rules))
	for i, r := range p.rules {
		rules[i] = &r.Rule
	}
	return rules
}
