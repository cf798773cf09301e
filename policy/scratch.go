package policy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/policy/internal/keys"
)

// scratch is the working memory of one decision. It is reused for later decisions, so a verdict keeps
// nothing of it.
type scratch struct {
	attributes Attributes // a copy, so that the caller's own need not be on the heap
	matching   matching
	memo       memo
	overrides  keys.Recent[*terms] // kept for later requests
	variants   []variant           // of the path, at least one
	variant    int                 // the index of the current one
	class      int                 // of the request, by all variants of its path
	plan       int                 // of the request
	found      []patternID
	values     []keys.Value
	selected   []selection
	rules      []*rule // of the descriptors of a call
	requests   []sluice.Request
	decisions  []sluice.Decision
	payments   []payment
	softened   []softened
	spare      []LimitResult // of a verdict that was freed
	keys       keys.Buffer
	client     netip.Addr // for the lists of networks
	peek       bool
	debit      bool
	hold       time.Duration
	store      sluice.Store // nil if the decision calls none
	whole      bool         // all attributes were copied
	// unknownPlan says that a rule has found the plan unknown.
	unknownPlan bool
	// listsToo keeps denials by list among the selections, for LimitsFor and traces.
	listsToo bool
	// returns says that some charges may be given back.
	returns bool
	// ahead says that some key has an allowance.
	ahead bool
	// matched says that some rule matches, and strayed that some path variant matches no rule.
	// postponed says that some rules depend on marks, and are matched when the marks are known.
	matched, strayed, postponed bool
	// certain means that a rule matches whichever of several values a service reads; sure, that the
	// rule to be added does.
	certain, sure bool
	// refusal is the verdict if the cost of the rule to be added refuses the request.
	refusal *Verdict
}

// selection is a rule that is to be decided, and its key.
type selection struct {
	rule    *rule
	set     *limitSet
	key     keys.Ref
	cost    int64
	maxWait time.Duration
	class   int
	// listed and reason are set if the rule is decided without the store.
	listed List
	reason sluice.Reason
	byCall bool // listed by an override of the table
	// allowance is the allowance of the key, nil for none.
	allowance *allowance
	// at is the index of the rule's first request, if filled is set. look lets the rule decide and take nothing.
	at           int
	filled, look bool
	// descriptor is the number of the descriptor in its call, and refund is how many units it gives back.
	descriptor int
	refund     int64
}

// fixed reports whether the rule is decided without the store.
func (q *selection) fixed() bool { return q.listed != NotListed || q.reason != sluice.ReasonNone }

// results returns how many results the selection has: one for each limit, or only one if it is decided without the store.
func (q *selection) results() int {
	if q.fixed() {
		return min(len(q.set.requests), 1)
	}
	return len(q.set.requests)
}

// role returns the role of the limit of number i.
func (q *selection) role(i int) Role {
	if role := q.set.kinds[i].role; q.refund == 0 || role == RoleCandidate {
		return role
	}
	return RoleRefund
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func newScratch() *scratch { return scratches.Get().(*scratch) }

func (s *scratch) free() {
	s.reset()
	scratches.Put(s)
}

// reset clears the contents and keeps the allocated memory.
func (s *scratch) reset() {
	s.attributes, s.matching, s.client, s.store = Attributes{}, matching{}, netip.Addr{}, nil
	clear(s.values[:cap(s.values)]) // the values of all rules: each rule wrote over the values of the rule before
	clear(s.memo)
	clear(s.variants)
	clear(s.selected)
	clear(s.rules)
	clear(s.requests)
	clear(s.payments)
	clear(s.softened)
	s.payments, s.softened, s.ahead = s.payments[:0], s.softened[:0], false
	s.values, s.selected, s.requests = s.values[:0], s.selected[:0], s.requests[:0]
	s.rules = s.rules[:0]
	s.decisions = s.decisions[:0]
	s.keys.Reset()
	s.memo, s.variants, s.variant = s.memo[:0], s.variants[:0], 0
	s.peek, s.listsToo, s.returns, s.matched, s.strayed, s.postponed = false, false, false, false, false, false
	s.certain, s.sure, s.debit, s.hold, s.refusal, s.plan, s.unknownPlan = false, false, false, 0, nil, planUnread, false
}

// add selects a rule that matches the request, with the key of the values in s. If the request is
// refused without the store, it returns the verdict.
func (s *scratch) add(r *rule, class int, cost int64, maxWait time.Duration) *Verdict {
	key, missing, repeated := s.makeKey(r.parts)
	if missing != nil {
		return s.addWithout(r, missing, repeated, cost)
	}
	s.matched, s.certain = true, s.certain || s.sure
	if s.variant > 0 && s.has(r, key) {
		return nil
	}
	q := s.choose(r, key)
	if r.LimitsFor != nil && !q.fixed() {
		if denied := s.limitsFor(q); denied != nil {
			return denied
		}
	}
	switch {
	case q.reason != sluice.ReasonNone && r.role == RoleEnforced && !s.listsToo:
		return denial(q.reason, r)
	case q.listed == NotListed && cost < 0 && s.refusal != nil:
		return s.refusal
	case q.listed == NotListed && cost < 0:
		return negativeDenial(r)
	}
	q.cost, q.class, q.maxWait = cost, class, shorter(maxWait, r.MaxWait)
	return nil
}

// choose selects a rule with a key. A list of the rule may decide about the key without the store, and an override may
// have other limits for it.
func (s *scratch) choose(r *rule, key keys.Ref) *selection {
	s.selected = append(s.selected, selection{})
	q := &s.selected[len(s.selected)-1]
	q.rule, q.set, q.key, q.allowance = r, r.limits, key, s.allowanceOf(r, key)
	if r.hasLists {
		q.listed = r.listed(key, &s.keys, s.client)
	}
	switch {
	case q.listed == ListDeny:
		q.reason = sluice.ReasonListed
	case q.listed == NotListed && r.Always:
		q.listed, q.reason = ListDeny, sluice.ReasonLimited
	}
	if r.byCall != nil && !r.byCall.table.IsEmpty() && !q.fixed() && s.overrideByCall(q) {
		return q
	}
	if !r.overrides.IsEmpty() && !q.fixed() {
		if set, ok := r.overrides.Find(key, &s.keys); ok {
			q.set = set
			return q
		}
	}
	if r.byPlan && !q.fixed() {
		s.choosePlan(q)
	}
	return q
}

// limitsFor takes the limits that the rule's LimitsFor returns for the request, if any. If one is nil, or there is none at
// all, it returns the verdict of a request that no store can decide.
func (s *scratch) limitsFor(q *selection) *Verdict {
	limits := q.rule.LimitsFor(&s.attributes)
	switch {
	case len(limits) == 0 && len(q.rule.Limits) > 0:
		return nil
	case len(limits) == 0:
		limits = make([]*sluice.Limit, 1)
	}
	for _, l := range limits {
		if err := (&sluice.Request{Limit: l, Peek: true}).Check(); err != nil {
			v := denial(sluice.ReasonNever, q.rule)
			v.Err = fmt.Errorf("policy: LimitsFor: %w", err)
			return v
		}
	}
	q.set = new(compiler).newSet(q.rule, limits, FromFile)
	return nil
}

// denial returns the verdict of a request that a rule refuses without the store.
func denial(reason sluice.Reason, r *rule) *Verdict {
	v := new(Verdict)
	v.Deny(reason, &r.Rule, nil)
	return v
}

func missingDenial(r *rule, missing *Part, repeated bool) *Verdict {
	v := denial(missingReason(repeated), r)
	v.Missing = missing
	return v
}

// missingReason returns the reason for a request that lacks a part of the key, or has it several times.
func missingReason(repeated bool) sluice.Reason {
	if repeated {
		return sluice.ReasonRepeatedKey
	}
	return sluice.ReasonMissingKey
}

func negativeDenial(r *rule) *Verdict {
	v := denial(sluice.ReasonNever, r)
	v.Err = negativeCost(r.Name)
	return v
}

// has reports whether another variant of the path has selected a rule for a key. The key is empty if
// it could not be made.
func (s *scratch) has(r *rule, k keys.Ref) bool {
	for i := range s.selected {
		if q := &s.selected[i]; q.rule == r && s.keys.IsEqual(q.key, k) {
			return true
		}
	}
	return false
}

// addWithout selects a rule for a request that lacks a part with MissingSkip or MissingDeny.
func (s *scratch) addWithout(r *rule, missing *Part, repeated bool, cost int64) *Verdict {
	if missing.OnMissing == MissingSkip && !repeated {
		return nil
	}
	s.matched, s.certain = true, s.certain || s.sure
	switch {
	case r.role == RoleEnforced:
		return missingDenial(r, missing, repeated)
	case !s.listsToo && (s.variant == 0 || !s.has(r, keys.Ref{})): // there is no key to compare
		s.selected = append(s.selected, selection{rule: r, set: r.limits, cost: cost, reason: missingReason(repeated)})
	}
	return nil
}

// shorter returns the shorter of two MaxWaits. If one is zero, the other one holds.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// fill makes the requests of the selected rules, or only of the rules that mark.
func (s *scratch) fill(marks bool) {
	buffer := s.keys.String()
	for i := range s.selected {
		q := &s.selected[i]
		if q.filled || q.fixed() || marks && !q.rule.marks() {
			continue
		}
		q.filled, q.at = true, len(s.requests)
		key := q.key.Key(buffer)
		for j := range q.set.requests {
			s.requests = append(s.requests, sluice.Request{})
			r := &s.requests[len(s.requests)-1]
			// What is debited is taken although other descriptors of the call are denied without the store.
			q.set.request(r, j, key, q.cost, q.class, q.look || s.peek && !q.set.requests[j].Debit)
			if q.key.IsLacking() {
				r.Ban = unearned(r.Ban)
			}
			if q.refund > 0 { // it neither takes units nor denies the batch
				r.Ban, r.Shadow = nil, true
			}
			if r.MaxWait = q.maxWait; s.debit {
				r.Debit, r.Overdraw = r.Limit.TakesDebits(), false
			}
			hold(r, s.hold)
			s.returns = s.returns || !s.peek && q.rule.returns(q.set.kinds[j])
		}
	}
}

// hold gives a request a hold, if its limit has holds and it is not a debit.
func hold(r *sluice.Request, d time.Duration) {
	if d > 0 && r.Limit.TakesDebits() && !r.Debit {
		r.Hold, r.MaxWait = d, sluice.NoWait
	}
}

// marks reports whether the rule marks requests, and so is decided before rules that depend on marks.
func (r *rule) marks() bool { return r.role == RoleAdvisory && r.WhenLimited.Action == Mark }

// results returns the results of all selections, with the decisions that have been made.
func (s *scratch) results() []LimitResult {
	n := 0
	for i := range s.selected {
		n += s.selected[i].results()
	}
	all := s.spare
	if s.spare = nil; all == nil || cap(all) < n {
		all = make([]LimitResult, n)
	}
	all = all[:n]
	clear(all)
	n = 0
	for i := range s.selected {
		q := &s.selected[i]
		if q.fixed() {
			if q.results() > 0 {
				s.fix(&all[n], q)
				n++
			}
			continue
		}
		for j := range q.set.requests {
			m, at := &all[n], q.at+j
			m.Rule, m.Request, m.Role, m.From, m.plan = &q.rule.Rule, s.requests[at], q.role(j), q.set.from, q.set.plan
			m.Override = m.From >= FromFile
			if at < len(s.decisions) {
				m.Decision = s.decisions[at]
			}
			if p := s.payer(at); p != nil {
				p.show(m, at)
			}
			n++
		}
	}
	return all
}

// Free lets a later verdict use the memory of the Results. A program that decides very often may call it when neither the
// verdict nor a copy of it is used any more. Without it, the garbage collector frees them.
func (v *Verdict) Free() {
	s := newScratch()
	s.spare, v.Results = v.Results[:0], nil
	scratches.Put(s)
}

// fix writes the result of a rule that was decided without the store.
func (s *scratch) fix(m *LimitResult, q *selection) {
	m.Rule, m.Role, m.Listed = &q.rule.Rule, q.role(0), q.listed
	if q.byCall {
		m.From, m.Override = FromCall, true
	}
	m.Request = q.set.requests[0]
	m.Request.Cost, m.Request.Peek = q.cost, true
	if q.reason != sluice.ReasonMissingKey && q.reason != sluice.ReasonRepeatedKey {
		m.Request.Key = q.key.Key(s.keys.String())
	}
	m.Decision = sluice.Decision{Allowed: q.reason == sluice.ReasonNone, Reason: q.reason, Limit: m.Request.Limit.Capacity()}
	if m.Decision.Allowed {
		m.Decision.Remaining = m.Decision.Limit
	}
}

// paced returns the keys whose bytes are paced.
func (s *scratch) paced() (all []Paced) {
	var buffer string
	for i := range s.selected {
		q := &s.selected[i]
		if q.rule.Bandwidth == nil || q.rule.Shadow || q.fixed() {
			continue
		}
		if buffer == "" {
			buffer = s.keys.String()
		}
		all = append(all, Paced{&q.rule.Rule, q.key.Key(buffer)})
	}
	return all
}

// byHand are the terms of a ban that no denial leads to.
var byHand = &sluice.Ban{}

// unearned returns the terms for requests that lack a part of the key. Their denials lead to no ban,
// because strangers share the key.
func unearned(b *sluice.Ban) *sluice.Ban {
	if b == nil {
		return nil
	}
	return byHand
}

// roleOf returns the role of the request to the store at an index.
func (s *scratch) roleOf(at int) Role {
	for i := range s.selected {
		if q := &s.selected[i]; q.filled && q.at <= at && at < q.at+len(q.set.kinds) {
			return q.set.kinds[at-q.at].role
		}
	}
	return RoleEnforced
}

// put lets the store decide the requests that it has not decided yet.
func (s *scratch) put(ctx context.Context, store sluice.Store) (err error) {
	done, n := len(s.decisions), len(s.requests)
	if cap(s.decisions) < n {
		s.decisions = append(make([]sluice.Decision, 0, 2*n), s.decisions...)
	}
	s.decisions = s.decisions[:n]
	clear(s.decisions[done:])
	if s.returns && n > done {
		var cancel context.CancelFunc
		ctx, cancel = outlast(ctx)
		defer cancel()
	}
	switch n - done {
	case 0:
	case 1:
		s.decisions[done], err = store.Decide(ctx, s.requests[done])
	default:
		err = store.DecideAll(ctx, s.requests[done:], s.decisions[done:])
	}
	if err != nil {
		clear(s.decisions[done:])
		var part *driver.DenialError
		if !errors.As(err, &part) {
			s.decisions = s.decisions[:done]
			return err
		}
		for i, d := range part.Denied {
			s.decisions[done+i] = d
		}
	}
	return err
}

// outlast returns a context that ends at the deadline of ctx, but not when ctx is canceled later.
// Without it, the charge of a client that leaves while the store decides would be unknown, and could
// not be given back. The client would keep its lease for the whole time to live, and many such clients
// would keep all leases.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil || ctx.Err() != nil {
		return ctx, func() {}
	}
	lasting := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(lasting, deadline)
	}
	return lasting, func() {}
}

// returns reports whether a charge of the limit may be given back after the request.
func (r *rule) returns(kind limitKind) bool {
	return kind.lease || r.Cost.Source.estimates() || len(r.CountStatus) > 0
}
