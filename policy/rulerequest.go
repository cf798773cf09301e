package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
)

// RuleRequest addresses one rule by name, whatever it matches.
type RuleRequest struct {
	// Rule is the name of the rule.
	Rule string
	// Key has the values of the rule's key: one for each part that is not a constant, in their order.
	// An empty value means a missing part. The values are cleaned like the values of a request: an
	// address is masked, a path is cleaned.
	Key []string
	// Cost is the cost in units, whatever the rule's Cost. Zero means the rule's cost, or one.
	Cost int64
	// Class is the name of the traffic class; empty for none. Do not let clients choose their own
	// class.
	Class string
	// MaxWait is the longest delay that is acceptable, as in Attributes.
	MaxWait time.Duration
	// Peek takes nothing.
	Peek bool
}

// DecideRule decides all limits of one rule in one step. The error is a *RuleRequestError if there is
// no such rule or class, or the key does not fit the rule. An error of the store is in the verdict.
// Lists of networks apply only to a key that contains an address.
func (p *Policy) DecideRule(ctx context.Context, store sluice.Store, q RuleRequest) (v Verdict, err error) {
	s := newScratch()
	defer s.free()
	s.peek = q.Peek
	r, err := p.read(s, q.Rule, q.Key)
	if err != nil {
		return v, err
	}
	number := noClass
	if q.Class != "" {
		number = slices.IndexFunc(p.classes, func(c class) bool { return c.Name == q.Class })
		if number == noClass {
			return v, &RuleRequestError{Rule: q.Rule, Problem: fmt.Sprintf("the class %q is unknown; give the name of one, or none", q.Class)}
		}
		if p.classes[number].Bypass {
			return Verdict{Class: q.Class, Bypass: true, policy: p}, nil
		}
	}
	cost := q.Cost
	if cost == 0 {
		cost = r.Cost.units(0)
	}
	switch denied := s.add(r, number, cost, q.MaxWait); {
	case denied != nil:
		v = *denied
	case !s.matched:
		p.decideDefault(&v)
	default:
		s.decide(ctx, store, &v, nil)
	}
	v.Class, v.policy = q.Class, p
	return v, nil
}

// Reset forgets the units that a key has used of all limits of a rule, candidates included, and its
// bans. The key is given as in RuleRequest. The error is a *RuleRequestError, or the store's.
func (p *Policy) Reset(ctx context.Context, store sluice.Store, rule string, key ...string) error {
	s := newScratch()
	defer s.free()
	r, err := p.read(s, rule, key)
	if err != nil {
		return err
	}
	k, err := s.keyOf(r)
	if err != nil {
		return err
	}
	var errs []error
	for i := range r.limits.requests {
		if r.Always {
			break // it has no state
		}
		errs = append(errs, store.Reset(ctx, r.limits.requests[i].Limit, k))
	}
	return errors.Join(errs...)
}

// KeyOf returns the key whose units a rule counts. The values are given as in RuleRequest. The error is a
// *RuleRequestError.
func (p *Policy) KeyOf(rule string, values ...string) (sluice.Key, error) {
	s := newScratch()
	defer s.free()
	r, err := p.read(s, rule, values)
	if err != nil {
		return sluice.Key{}, err
	}
	return s.keyOf(r)
}

// keyOf returns the key of a rule whose values were read.
func (s *scratch) keyOf(r *rule) (k sluice.Key, err error) {
	ref, missing := s.makeKey(r.parts)
	if missing != nil {
		return k, &RuleRequestError{Rule: r.Name, Problem: fmt.Sprintf("has no state of requests without %s", missing)}
	}
	return ref.key(string(s.key)), nil
}

// read finds a rule and reads the values of its key into s.
func (p *Policy) read(s *scratch, name string, key []string) (*rule, error) {
	r := p.byName[name]
	if r == nil {
		return nil, &RuleRequestError{Rule: name, Unknown: true, Problem: "is unknown"}
	}
	if f := r.readKey(s, key, p.paths); f != (fault{}) {
		return nil, &RuleRequestError{Rule: name, Problem: f.problem}
	}
	return r, nil
}

// readKey reads the values of a key into s. If they are not a key of the rule, it returns why.
func (r *rule) readKey(s *scratch, key []string, paths Paths) (f fault) {
	var wanted []string
	s.values = s.values[:0]
	for i := range r.parts {
		part := &r.parts[i]
		if part.Source == FromConstant {
			s.values = append(s.values, partValue{text: part.Name, ok: true})
			continue
		}
		wanted = append(wanted, part.String())
		if len(wanted) > len(key) {
			continue
		}
		v, f := r.valueFrom(part, key[len(wanted)-1], paths)
		if f != (fault{}) {
			f.problem = fmt.Sprintf("part %d of the key, %s, %s", len(wanted), part, f.problem)
			return f
		}
		if part.Source == FromClientIP {
			s.client = v.addr
		}
		s.values = append(s.values, v)
	}
	if len(wanted) != len(key) {
		return fault{fmt.Sprintf("the key has %d parts and the rule's has %d: %v", len(key), len(wanted), wanted), "give a value for each"}
	}
	return f
}
