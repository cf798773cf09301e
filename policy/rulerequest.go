package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/source"
)

// RuleRequest addresses one rule by name, whatever it matches.
type RuleRequest struct {
	// Rule is the name of the rule.
	Rule string
	// Key has the values of the rule's key: one for each part that is not a constant, in their order.
	// An empty value means a missing part. The values are cleaned like the values of a request: an
	// address is masked, a path is cleaned.
	Key []string
	// Cost is the cost in units, whatever the rule's Cost. Zero means the rule's cost, or one; NoCost means none.
	Cost int64
	// Class is the name of the traffic class; empty for none. Do not let clients choose their own
	// class.
	Class string
	// Plan is the name of the plan; empty for none. It counts as a plan that a request names. Do not let clients choose
	// their own plan.
	Plan string
	// MaxWait is the longest delay that is acceptable, as in Attributes.
	MaxWait time.Duration
	// Hold gives the costs back that nobody settles in time, as in Attributes.
	Hold time.Duration
	// Peek takes nothing.
	Peek bool
	// Debit takes the cost of all limits of the rule whatever is left, for work that is done already: see
	// sluice.Request.Debit. Candidates that cannot owe units decide as without it.
	Debit bool
}

// RuleRequestError reports a RuleRequest that cannot be decided.
type RuleRequestError struct {
	// Rule is the name in the request.
	Rule string
	// Unknown says that there is no such rule. Otherwise the rule exists, and Problem says why it
	// cannot decide, such as a key that does not fit.
	Unknown bool
	// Problem says what is wrong.
	Problem string
}

func (e *RuleRequestError) Error() string {
	return fmt.Sprintf("policy: rule %q: %s", e.Rule, e.Problem)
}

// DecideRule decides all limits of one rule in one step. The error is a *RuleRequestError if there is
// no such rule or class, or the key does not fit the rule. An error of the store is in the verdict.
// Lists of networks apply only to a key that contains an address. A debit of a rule with a limit that cannot owe units is a
// *sluice.RequestError.
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
	switch cost {
	case 0:
		cost = r.Cost.units(0)
	case NoCost:
		cost = 0
	}
	s.debit, s.hold, s.plan = q.Debit, q.Hold, noPlan
	if q.Plan != "" {
		s.plan = numberOf(p.plans, q.Plan)
	}
	denied := s.add(r, number, cost, q.MaxWait)
	if err := s.checkDebits(); err != nil {
		return v, err
	}
	switch {
	case denied != nil:
		v = *denied
	case !s.matched:
		p.decideDefault(&v)
	default:
		s.decide(ctx, store, &v, nil)
	}
	v.Class, v.UnknownPlan, v.policy = q.Class, s.unknownPlan, p
	return v, nil
}

// checkDebits reports a limit that cannot owe units, if the request is a debit. Candidates may be such limits.
func (s *scratch) checkDebits() error {
	for i := range s.selected {
		q := &s.selected[i]
		for j := range q.set.requests {
			if r := (sluice.Request{Limit: q.set.requests[j].Limit, Peek: true, Debit: true}); s.debit && q.set.kinds[j].role != RoleCandidate {
				if err := r.Check(); err != nil {
					return err
				}
			}
		}
	}
	return nil
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
	if r.LimitsFor != nil && len(r.Limits) == 0 {
		return &RuleRequestError{Rule: rule, Problem: "finds its limits for each request; reset the key of a limit in the store"}
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

// GiveBack gives units back to a key of a rule, of all its limits, as if the key's newest charges had cost less: at
// most what the key has used. Candidates get them too. The key is given as in RuleRequest. Nothing happens if a list or
// an override decides about the key. The error is a *RuleRequestError, or the store's: it wraps ErrUnknownOutcome if
// some limits may have their units. It wraps errors.ErrUnsupported if a limit is a leaky bucket, whose units have their
// moments, or a concurrency limit, whose leases are released; then none gets units.
func (p *Policy) GiveBack(ctx context.Context, store sluice.Store, units int64, rule string, key ...string) error {
	s := newScratch()
	defer s.free()
	s.peek, s.listsToo, s.plan = true, true, noPlan
	r, err := p.read(s, rule, key)
	if err != nil {
		return err
	}
	if _, err := s.keyOf(r); err != nil {
		return err
	}
	if units < 1 {
		return &RuleRequestError{Rule: rule, Problem: fmt.Sprintf("cannot give %d units back; give 1 or more", units)}
	}
	s.add(r, noClass, 0, 0)
	if s.fill(false); len(s.requests) == 0 {
		return nil
	}
	return s.selected[0].giveBack(ctx, store, units, s.requests)
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
	ref, missing, _ := s.makeKey(r.parts)
	if missing != nil {
		return k, &RuleRequestError{Rule: r.Name, Problem: fmt.Sprintf("has no state of requests without %s", missing)}
	}
	return ref.Key(s.keys.String()), nil
}

// read finds a rule and reads the values of its key into s.
func (p *Policy) read(s *scratch, name string, key []string) (*rule, error) {
	r := p.byName[name]
	if r == nil {
		return nil, &RuleRequestError{Rule: name, Unknown: true, Problem: "is unknown"}
	}
	if f := r.readKey(s, key, p.paths); f != (fault{}) {
		return nil, &RuleRequestError{Rule: name, Problem: f.Problem}
	}
	return r, nil
}

// errNoBanner reports a store that does not implement sluice.Banner.
var errNoBanner = fmt.Errorf("policy: the store does not list bans, nor take them by hand: %w", errors.ErrUnsupported)

// Ban bans a key of a rule by hand: all its requests are refused for d. The rule must have a Ban, even
// the zero Ban, so that its requests look for bans. The key is given as in RuleRequest. The error is a
// *RuleRequestError or the store's error. It wraps errors.ErrUnsupported if the store does not
// implement sluice.Banner.
func (p *Policy) Ban(ctx context.Context, store sluice.Store, d time.Duration, rule string, key ...string) error {
	r, k, err := p.bannable(rule, key)
	if err != nil {
		return err
	}
	b, ok := sluice.As[sluice.Banner](store)
	if !ok {
		return errNoBanner
	}
	// All limits must let a request pass, so a ban by one limit is enough.
	return b.BanKey(ctx, r.Limits[0], k, d)
}

// LiftBan ends the bans of a key for all limits of a rule, and forgets the denials that led to them. It
// reports whether a ban was in force. The key and the error are as in Ban.
func (p *Policy) LiftBan(ctx context.Context, store sluice.Store, rule string, key ...string) (bool, error) {
	r, k, err := p.bannable(rule, key)
	if err != nil {
		return false, err
	}
	b, ok := sluice.As[sluice.Banner](store)
	if !ok {
		return false, errNoBanner
	}
	var errs []error
	found := false
	for _, l := range r.Limits {
		here, err := b.LiftBan(ctx, l, k)
		found = found || here
		errs = append(errs, err)
	}
	return found, errors.Join(errs...)
}

// bannable returns a rule whose keys can be banned, and the key.
func (p *Policy) bannable(name string, key []string) (r *rule, k sluice.Key, err error) {
	s := newScratch()
	defer s.free()
	if r, err = p.read(s, name, key); err != nil {
		return nil, k, err
	}
	if k, err = s.keyOf(r); err != nil {
		return nil, k, err
	}
	fail := func(problem string) (*rule, sluice.Key, error) {
		return nil, k, &RuleRequestError{Rule: name, Problem: problem}
	}
	switch {
	case r.Ban == nil:
		return fail("looks after no bans; give it a ban in the policy, {by_hand: true} if denials are to ban nobody")
	case len(r.Limits) == 0:
		return fail("has no limit, and so no bans; put the ban on a rule with one, or the key on the rule's list to deny")
	}
	return r, k, nil
}

// BannedKey is a ban in force.
type BannedKey struct {
	sluice.BannedKey
	// Rule is the name of the key's rule, even if the policy no longer has that rule.
	Rule string
	// Values are the values of the key as in RuleRequest. They are nil if the store does not keep them.
	Values []string
}

// ListBans returns a page of the bans in force, and where the next page begins: see sluice.Banner. The
// error wraps errors.ErrUnsupported if the store does not implement sluice.Banner.
func (p *Policy) ListBans(ctx context.Context, store sluice.Store, q sluice.BanQuery) (bans []BannedKey, next string, err error) {
	b, ok := sluice.As[sluice.Banner](store)
	if !ok {
		return nil, "", errNoBanner
	}
	page, err := b.ListBans(ctx, q)
	if err != nil {
		return nil, "", err
	}
	bans = make([]BannedKey, len(page.Bans))
	for i := range page.Bans {
		x := &bans[i]
		x.BannedKey = page.Bans[i]
		x.Rule, _, _ = strings.Cut(x.Limit, "/") // see compiler.nameLimits
		if x.Digest == "" {
			x.Values = p.KeyValues(x.Rule, x.Key)
		}
	}
	return bans, page.Next, nil
}

// KeyValues returns the values of a key of a rule, as in RuleRequest.Key. A missing part has an empty value. If the
// policy has no such rule, or the key is not one that the values give, such as after a change of the rule's parts,
// KeyValues returns all parts of the key.
func (p *Policy) KeyValues(rule string, k sluice.Key) []string {
	parts := k.Parts()
	r := p.byName[rule]
	// A key with missing parts has one part more; see makeKey.
	if r == nil || len(parts) != len(r.parts) && len(parts) != len(r.parts)+1 {
		return parts
	}
	values := []string{}
	for i := range r.parts {
		if r.parts[i].Source != source.Constant {
			values = append(values, parts[i])
		}
	}
	s := newScratch()
	defer s.free()
	if r.readKey(s, values, p.paths) != (fault{}) {
		return parts
	}
	if ref, missing, _ := s.makeKey(r.parts); missing != nil || ref.Key(s.keys.String()) != k {
		return parts
	}
	return values
}
