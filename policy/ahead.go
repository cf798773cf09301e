package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy/internal/keys"
)

// Ahead bounds the units ahead that a key of a rule may get. See Allowance.
type Ahead struct {
	// Units is the most that a key may have ahead at a time, what it has used of them included. Required.
	Units int64
	// For is how long they may last. Required, up to 366 days.
	For time.Duration
}

const (
	mostAheadFor = 366 * 24 * time.Hour
	// aheadCount is what a window of units ahead counts to. A request leaves the units that its key does not have.
	aheadCount = 1 << 50
)

// Allowance is the units ahead of a key: if a limit of the rule lacks units for a request, the allowance pays the whole
// cost, until all its units are used or its time is over. Other limits are charged as always. An OverrideTable has an
// allowance as the text of a key of AllowancesOf a rule. It counts only if the rule has an Ahead. It is a value, safe
// for concurrent use.
type Allowance struct {
	// ID distinguishes it from other allowances of the key, whose used units do not count: letters and digits. With
	// another ID, all units are there again.
	ID string
	// Units is how many units there are in all.
	Units int64
	// Until is when it ends, in whole seconds. With more units or a later end, used units stay used.
	Until time.Time
}

// AllowancesOf returns the name under which an OverrideTable has the allowances of a rule.
func AllowancesOf(rule string) string { return rule + aheadSuffix }

const aheadSuffix = "/ahead"

// String returns the text of the allowance for OverrideTable.Set.
func (a Allowance) String() string { return fmt.Sprintf("%s %d %d", a.ID, a.Units, a.Until.Unix()) }

// ParseAllowance reads the text of an allowance. The error has the text.
func ParseAllowance(text string) (a Allowance, err error) {
	words := strings.Split(text, " ")
	if len(words) != 3 || words[0] == "" {
		return a, fmt.Errorf("policy: %.64q is not the text of an allowance", text)
	}
	units, err := strconv.ParseInt(words[1], 10, 64)
	until, bad := strconv.ParseInt(words[2], 10, 64)
	if err != nil || bad != nil || units < 1 || units >= aheadCount || until < 1 {
		return a, fmt.Errorf("policy: %.64q is not the text of an allowance", text)
	}
	return Allowance{words[0], units, time.Unix(until, 0)}, nil
}

// allowance is an allowance with the limit that counts its units.
type allowance struct {
	Allowance
	limit *sluice.Limit
}

// allowance reads the text of an allowance; nil if it is none.
//
// Its units are counted in a window that began at the epoch, and ends a day or two after the allowance. So nothing
// comes back before, whatever the clocks of servers and stores say, and the state ends by itself. Allowances of one day
// share their limit.
func (o *ruleOverrides) allowance(rule, text string) *allowance {
	a, err := ParseAllowance(text)
	if !strings.HasSuffix(rule, aheadSuffix) || err != nil {
		return nil
	}
	const day = 24 * time.Hour
	days := a.Until.Unix()/int64(day/time.Second) + 2
	l := o.windows[days]
	if l == nil {
		l, err = sluice.NewLimit(rule+"/units", sluice.FixedWindow{Rate: sluice.Per(aheadCount, time.Duration(days)*day)})
		if err != nil {
			return nil // in a hundred years
		}
		maps.DeleteFunc(o.windows, func(other int64, _ *sluice.Limit) bool { return other < days-2*int64(mostAheadFor/day) })
		o.windows[days] = l
	}
	return &allowance{a, l}
}

// request makes the request to an allowance for the request to a limit. Without a cost, a unit must be left.
func (a *allowance) request(of *sluice.Request) sluice.Request {
	r := sluice.Request{
		Limit: a.limit, Key: sluice.NewKey(append(of.Key.Parts(), a.ID)...), Cost: of.Cost, Floor: aheadCount - a.Units,
		MaxWait: sluice.NoWait, Peek: of.Peek, Hold: of.Hold,
	}
	if r.Cost == 0 {
		r.Cost, r.Peek = 1, true
	}
	return r
}

// coverable reports whether an allowance can pay for what a limit lacks: the limit counts units, and a denial changes
// nothing.
func coverable(l *sluice.Limit) bool { return l.TakesDebits() && !l.Params().CountsDenied() }

// checkAhead checks the bound of units ahead.
func (c *compiler) checkAhead(r *rule) {
	a := r.Ahead
	if a == nil {
		return
	}
	if a.Units < 1 || a.Units >= aheadCount {
		c.report("Ahead.Units", "", is(a.Units, fmt.Sprintf("give 1 to %d", int64(aheadCount-1))))
	}
	if a.For < time.Second || a.For > mostAheadFor {
		c.report("Ahead.For", "", is(a.For, "give 1s to 8784h, which is 366 days"))
	}
	if c.single || r.WhenLimited.Action.advisory() || roleOf(&r.Rule) == RoleQuota || r.debits() || !slices.ContainsFunc(r.Limits, coverable) {
		c.report("Ahead", "", fault{
			"is given, and no limit of the rule refuses requests only because units are missing",
			"leave it out: rules that degrade, mark or debit, quotas, leaky buckets, concurrency limits and limits that count denied requests have no units ahead",
		})
	}
}

// addAhead finds the allowances of a rule. A rule in shadow refuses nothing, and needs none.
func (c *compiler) addAhead(r *rule) {
	if r.Ahead != nil && r.role == RoleEnforced {
		r.ahead = c.options.Overrides.get(AllowancesOf(r.Name))
	}
}

// allowanceOf returns the allowance of a key; nil for none. A debit needs none.
func (s *scratch) allowanceOf(r *rule, key keys.Ref) *allowance {
	if r.ahead == nil || r.ahead.table.IsEmpty() || s.debit {
		return nil
	}
	x, found := r.ahead.table.Find(key, &s.keys)
	if !found {
		return nil
	}
	s.ahead = true
	return x.allowance
}

// payment is an allowance that pays for limits of a selection.
type payment struct {
	*allowance
	of       *selection
	at       []int // the indexes of what the limits denied; the first one has the charge
	request  sluice.Request
	decision sluice.Decision
}

// softened is a request whose denial an allowance may prevent, and its own terms.
type softened struct {
	*allowance
	at      int
	maxWait time.Duration
	ban     *sluice.Ban
}

// soften lets allowances come before waits and bans: a request that one may pay for does not wait, and its denial leads
// to no ban.
func (s *scratch) soften() {
	for i := range s.selected {
		q := &s.selected[i]
		for at := q.at; q.filled && q.allowance != nil && at < q.at+len(q.set.requests); at++ {
			r := &s.requests[at]
			if bans := r.Ban != nil && r.Ban.After > 0 && !r.Peek; !r.Shadow && coverable(r.Limit) && (bans || r.MaxWait > 0) {
				s.softened = append(s.softened, softened{q.allowance, at, r.MaxWait, r.Ban})
				if r.MaxWait = sluice.NoWait; bans {
					r.Ban = r.Ban.Uncounted()
				}
			}
		}
	}
}

// harden gives requests their own terms back.
func (s *scratch) harden() {
	for i := range s.softened {
		x := &s.softened[i]
		s.requests[x.at].MaxWait, s.requests[x.at].Ban = x.maxWait, x.ban
	}
}

// putAhead is put for keys with allowances. These pay for what limits deny, in one step with the other limits: all are
// charged, or none is. If that fails, the requests are decided as without allowances. Other requests may change what a
// limit answers from call to call, but a limit counts no denial that an allowance prevents, and any other one once.
func (s *scratch) putAhead(ctx context.Context, store sluice.Store) error {
	if s.returns {
		var cancel context.CancelFunc
		ctx, cancel = outlast(ctx)
		defer cancel()
	}
	s.soften()
	defer s.harden()
	if err := s.put(ctx, store); err != nil {
		return err
	}
	for s.cover() {
		if err := s.decideAgain(ctx, store); err != nil {
			s.payments = s.payments[:0]
			return nil // the denial holds
		}
		if !s.paid() {
			s.payments = s.payments[:0]
			break
		}
	}
	if s.harden(); slices.ContainsFunc(s.softened, func(x softened) bool { return !s.decisions[x.at].Allowed && s.payer(x.at) == nil }) {
		s.holdDenials()
		_ = s.decideAgain(ctx, store) // after an error, the denial holds
		s.payments = s.payments[:0]
	}
	return nil
}

// holdDenials keeps what has counted a denial from being decided again. A payment of an allowance without units is decided
// instead. The store denies that payment, so it charges none of the requests beside it.
func (s *scratch) holdDenials() {
	var counted []int
	for at := range s.requests {
		counts := !slices.ContainsFunc(s.softened, func(x softened) bool { return x.at == at })
		if counts && !s.decisions[at].Allowed && !s.requests[at].Shadow {
			counted = append(counted, at)
		}
	}
	if len(counted) > 0 {
		none := *s.softened[0].allowance
		none.Units = 0
		s.payments = append(s.payments, payment{at: counted, request: none.request(&s.requests[s.softened[0].at])})
	}
}

// decideAgain decides the payments, and the requests that they do not cover. What is charged in any case is decided
// already.
func (s *scratch) decideAgain(ctx context.Context, store sluice.Store) error {
	var requests []sluice.Request
	var of []int
	for at := range s.requests {
		if r := &s.requests[at]; s.payer(at) == nil && !r.Shadow && !r.Debit {
			requests, of = append(requests, *r), append(of, at)
		}
	}
	for i := range s.payments {
		requests = append(requests, s.payments[i].request)
	}
	decisions := make([]sluice.Decision, len(requests))
	if err := store.DecideAll(ctx, requests, decisions); err != nil {
		return err
	}
	for i, at := range of {
		s.decisions[at] = decisions[i]
	}
	for i := range s.payments {
		s.payments[i].decision = decisions[len(of)+i]
	}
	return nil
}

// paid reports whether the allowances had the units.
func (s *scratch) paid() bool {
	return !slices.ContainsFunc(s.payments, func(p payment) bool { return !p.decision.Allowed })
}

// cover makes allowances pay for what limits deny, and reports whether there are such denials. If another one is among
// them, no allowance pays.
func (s *scratch) cover() (pays bool) {
	for i := range s.selected {
		q := &s.selected[i]
		for at := q.at; q.filled && at < q.at+len(q.set.requests); at++ {
			r, d := &s.requests[at], &s.decisions[at]
			if d.Allowed || r.Shadow || s.payer(at) != nil {
				continue
			}
			if q.allowance == nil || !coverable(r.Limit) || d.Degraded || d.Reason != sluice.ReasonLimited && d.Reason != sluice.ReasonNever {
				s.payments = s.payments[:0]
				return false
			}
			p := slices.IndexFunc(s.payments, func(p payment) bool { return p.of == q })
			if p < 0 {
				p = len(s.payments)
				s.payments = append(s.payments, payment{allowance: q.allowance, of: q, request: q.allowance.request(r)})
			}
			s.payments[p].at = append(s.payments[p].at, at)
			pays = true
		}
	}
	return pays
}

// payer returns the payment for a request, nil for none.
func (s *scratch) payer(at int) *payment {
	for i := range s.payments {
		if slices.Contains(s.payments[i].at, at) {
			return &s.payments[i]
		}
	}
	return nil
}

// PaidAhead is an allowance that paid for a request. It does not change, and is safe for concurrent use.
type PaidAhead struct {
	Allowance
	// Remaining is how many units remain of the allowance, and Left how many remain of the limit.
	Remaining, Left int64

	request *sluice.Request // to the allowance, if the charge is here
}

// show makes the result of a limit that a payment covers.
func (p *payment) show(m *LimitResult, at int) {
	d := &m.Decision
	m.Ahead = &PaidAhead{Allowance: p.Allowance, Remaining: p.decision.Remaining, Left: d.Remaining}
	d.Allowed, d.Reason, d.RetryAfter, d.Remaining = true, sluice.ReasonNone, 0, p.decision.Remaining
	if at == p.at[0] {
		request := p.request
		m.Ahead.request, d.Receipt = &request, p.decision.Receipt
	}
}

// Allowance returns the allowance of a key of a rule and how many units remain of it; found is false if there is none
// that counts, or a fallback decides. The key is given as in RuleRequest. The error is a *RuleRequestError, or the
// store's.
func (p *Policy) Allowance(ctx context.Context, store sluice.Store, rule string, key ...string) (a Allowance, remaining int64, found bool, err error) {
	s := newScratch()
	defer s.free()
	r, err := p.read(s, rule, key)
	if err != nil {
		return a, 0, false, err
	}
	ref, missing, _ := s.makeKey(r.parts)
	x := s.allowanceOf(r, ref)
	if missing != nil || x == nil {
		return a, 0, false, nil
	}
	d, err := store.Decide(ctx, x.request(&sluice.Request{Key: ref.Key(s.keys.String()), Peek: true}))
	return x.Allowance, d.Remaining, err == nil && !d.Degraded, err
}
