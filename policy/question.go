package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// Question addresses one rule by name, whatever it matches.
type Question struct {
	// Rule is the name of the rule.
	Rule string
	// Key are the values of the rule's key, one for each part that is no constant, in
	// their order; an empty one is missing. They are cleaned as those of a
	// request are: an address is masked, a path cleaned.
	Key []string
	// Cost is how many units are asked for, whatever the rule says. Zero means what
	// the rule says, or one.
	Cost int64
	// MaxWait is the longest delay that is acceptable, as in Attributes.
	MaxWait time.Duration
	// Peek takes nothing.
	Peek bool
}

// DecideRule decides all limits of one rule as one. The error is a
// *QuestionError if there is no such rule, or the key does not fit it; a store's
// error is in the verdict.
func (p *Policy) DecideRule(ctx context.Context, store sluice.Store, q Question) (Verdict, error) {
	s := newScratch()
	defer s.free()
	r, err := p.read(s, q.Rule, q.Key)
	if err != nil {
		return Verdict{}, err
	}
	cost := q.Cost
	if cost == 0 {
		cost = r.Cost.units(0)
	}
	skip, denied := s.add(r, cost, q.MaxWait, q.Peek)
	switch {
	case denied != nil:
		return *denied, nil
	case skip:
		return Verdict{Action: p.fallback, Reason: sluice.ReasonNoRule}, nil
	}
	var v Verdict
	if len(s.asked) > 0 {
		s.decide(ctx, store, &v)
	}
	return v, nil
}

// Reset forgets what a key has used of all limits of a rule, and its bans. The
// key is given as in Question. The error is a *QuestionError, or the store's.
func (p *Policy) Reset(ctx context.Context, store sluice.Store, rule string, key ...string) error {
	s := newScratch()
	defer s.free()
	r, err := p.read(s, rule, key)
	if err != nil {
		return err
	}
	ref, missing := s.makeKey(r.parts)
	if missing != nil {
		return &QuestionError{Rule: rule, Problem: fmt.Sprintf("has no state of requests without %s", missing)}
	}
	k := ref.key(string(s.key))
	var errs []error
	for _, l := range r.Limits {
		errs = append(errs, store.Reset(ctx, l, k))
	}
	return errors.Join(errs...)
}

// read finds a rule and reads the values of its key into s.
func (p *Policy) read(s *scratch, name string, key []string) (*rule, error) {
	r := p.byName[name]
	if r == nil {
		return nil, &QuestionError{Rule: name, Unknown: true, Problem: "is unknown"}
	}
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
		v, problem := r.valueFrom(part, key[len(wanted)-1], p.paths)
		if problem != "" {
			return nil, &QuestionError{Rule: name, Problem: fmt.Sprintf("part %d of the key, %s, %s", len(wanted), part, problem)}
		}
		s.values = append(s.values, v)
	}
	if len(wanted) != len(key) {
		return nil, &QuestionError{Rule: name, Problem: fmt.Sprintf("the key has %d parts and the rule's has %d: %v", len(key), len(wanted), wanted)}
	}
	return r, nil
}
