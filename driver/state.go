package driver

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// State is what a store keeps of a key of a limit: one State for each [sluice.Limit.ID] and key. The zero State is of a
// key that was never seen. A copy of a State shares memory with it: see Clone. A State is not safe for concurrent use.
//
// All times are in microseconds since the Unix epoch.
type State struct {
	replica algo.Replica
	limit   *sluice.Limit // whose numbers the replica has
}

// BanState is what a store keeps of the bans of a key: one BanState for each [sluice.Limit.NameID] and key. The zero
// BanState is of a key without denials. It is a value, and not safe for concurrent use.
type BanState struct{ state algo.State }

// Fresh reports whether the state equals the zero State: a store may forget it.
func (s *State) Fresh(now int64) bool {
	switch p := s.replica.Params; {
	case p == nil:
		return true
	case p.Inline():
		return p.FreshState(s.replica.State, now)
	default:
		return p.FreshWords(s.replica.Words, now)
	}
}

// Fresh reports whether the state equals the zero BanState: a store may forget it.
func (b *BanState) Fresh(now int64) bool {
	return b.state == algo.State{} || now >= algo.BanForgotten(b.state)
}

// Clone returns a copy of the state that shares nothing with it.
func (s *State) Clone() State {
	c := *s
	c.replica.Words = append([]uint64(nil), c.replica.Words...)
	return c
}

// open makes a state that was never written one of a limit's numbers.
func (s *State) open(l *sluice.Limit) {
	if s.replica.Params != nil {
		return
	}
	p := l.Params()
	s.limit, s.replica.Params = l, p
	if !p.Inline() {
		least, _ := p.Words()
		s.replica.Words = make([]uint64, least)
	}
}

// grow makes room for another charge.
func (s *State) grow(now int64) {
	c := &s.replica
	if c.Params.Inline() {
		return
	}
	if _, most := c.Params.Words(); len(c.Words) < most && c.Params.FullWords(c.Words, now) {
		old := c.Words
		c.Words = make([]uint64, min(2*len(old), most))
		c.Params.MoveWords(c.Words, old)
	}
}

// decide decides a request without regard to bans. A denial leaves a state that was written under other numbers as it is,
// and a debit that is denied is charged under the numbers of the state.
func (s *State) decide(r *sluice.Request, req *algo.Request, peek bool) sluice.Decision {
	p := r.Limit.Params()
	s.open(r.Limit)
	c := &s.replica
	var res algo.Result
	if peek {
		c.Peek(p, req, &res)
		return translate.Decision(p, &res)
	}
	switch {
	case c.Params.Equal(p):
		c.Params = p
	case req.Cost == 0:
		c.Peek(p, req, &res)
		return translate.Decision(p, &res)
	case !c.Moves(p, req.Now):
		c.Peek(p, req, &res)
		if !res.Allowed && !req.Debit {
			return translate.Decision(p, &res)
		}
		if !res.Allowed && !s.Fresh(req.Now) {
			s.grow(req.Now)
			c.Charge(&algo.Request{Now: req.Now, Cost: req.Cost, Debit: true}, &res)
			plain := *req
			plain.Debit = false
			c.Peek(p, &plain, &res)
			return translate.Decision(p, &res)
		}
	}
	c.Convert(p, req.Now)
	s.limit = r.Limit
	s.grow(req.Now)
	c.Charge(req, &res)
	return translate.Decision(p, &res)
}

// decide decides a request with its ban, and writes neither state if peek is set.
func decide(s *State, b *BanState, r *sluice.Request, now int64, peek bool) sluice.Decision {
	req := translate.Request(r)
	req.Now = now
	if r.Ban == nil {
		return s.decide(r, &req, peek)
	}
	terms := r.Ban.Terms()
	state := terms.Settled(b.state, now)
	end := terms.Banned(state, now)
	if end > 0 {
		state = terms.Attempted(state, now)
		end = state.T
	}
	if !peek {
		b.state = state
	}
	if end > 0 {
		if req.Debit {
			s.decide(r, &req, false) // it is charged all the same
			req.Debit = false
		}
		d := s.decide(r, &req, true)
		return translate.Banned(end-now, &d)
	}
	d := s.decide(r, &req, peek)
	if state, counts := translate.Denied(&terms, state, &d, now); counts && !peek {
		b.state = state
	}
	return d
}

// Decide decides requests as [sluice.Store.DecideAll] does, and changes the states of their keys. It calls find for the
// states of each request: the same pointers for the same limit and key, and for the same name and key. The store keeps
// other calls from using these states meanwhile. After an error nothing has changed: it is a *sluice.RequestError, or
// reports that out is not as long as rs.
func Decide(now int64, rs []sluice.Request, out []sluice.Decision, find func(r *sluice.Request) (*State, *BanState)) error {
	if len(out) != len(rs) {
		return fmt.Errorf("driver: Decide has %d requests and room for %d decisions; give as many", len(rs), len(out))
	}
	for i := range rs {
		if err := rs[i].Check(); err != nil {
			return err
		}
		if rs[i].Hold > 0 {
			return &sluice.RequestError{Limit: rs[i].Limit.Name(), Problem: "the store has no holds; leave the hold out", Err: sluice.ErrUnsupported}
		}
	}
	b := batch{now, rs, make([]*State, len(rs)), make([]*BanState, len(rs))}
	for i := range rs {
		b.states[i], b.bans[i] = find(&rs[i])
	}
	allowed := true
	for i := range rs {
		if b.debits(i) {
			out[i] = b.decide(i, rs[i].Peek)
			allowed = allowed && out[i].Allowed
		}
	}
	for i := range rs {
		if !rs[i].Shadow && !b.debits(i) {
			out[i] = b.peek(i)
			allowed = allowed && out[i].Allowed
		}
	}
	for i := range rs {
		// Without the charges of requests before them, allowed requests get other numbers.
		if !allowed && !rs[i].Shadow && !b.debits(i) && out[i].Allowed {
			out[i] = b.decide(i, true)
		}
	}
	for i := range rs {
		if rs[i].Shadow || rs[i].Peek || b.debits(i) {
			continue
		}
		switch {
		case !out[i].Allowed:
			b.count(i, out[i])
		case allowed:
			out[i] = b.decide(i, false)
		}
		if !allowed {
			out[i].Receipt = sluice.Receipt{} // nothing was charged
		}
	}
	for i := range rs {
		if rs[i].Shadow {
			out[i] = b.decide(i, rs[i].Peek)
		}
	}
	return nil
}

// batch is the requests of one call, with their states.
type batch struct {
	now    int64
	rs     []sluice.Request
	states []*State
	bans   []*BanState
}

func (b *batch) decide(i int, peek bool) sluice.Decision {
	return decide(b.states[i], b.bans[i], &b.rs[i], b.now, peek)
}

// debits reports whether a request is charged whether the batch is allowed or not.
func (b *batch) debits(i int) bool {
	r := &b.rs[i]
	return r.Debit && r.Cost > 0 && !r.Peek && !r.Shadow
}

// charges reports whether a request is charged if the batch is allowed.
func (b *batch) charges(i int) bool {
	r := &b.rs[i]
	return !r.Peek && !r.Shadow && !r.Debit && r.Cost > 0
}

// peek returns the decision about a request as if the requests before it had been charged. A request that is denied under
// other numbers leaves the state as it is.
func (b *batch) peek(i int) sluice.Decision {
	s := b.states[i].Clone()
	for j := range i {
		if b.states[j] != b.states[i] || !b.charges(j) {
			continue
		}
		req := translate.Request(&b.rs[j])
		req.Now = b.now
		s.open(b.rs[j].Limit)
		if !s.replica.Keeps(b.rs[j].Limit.Params(), &req) {
			s.decide(&b.rs[j], &req, false)
		}
	}
	return decide(&s, b.bans[i], &b.rs[i], b.now, true)
}

// count counts a denial, in the ban and in a state that counts denials. If the request is denied only because of requests
// before it, which are not charged, only the ban counts it.
func (b *batch) count(i int, d sluice.Decision) {
	if alone := b.decide(i, true); !alone.Allowed {
		b.decide(i, false)
		return
	}
	if ban := b.rs[i].Ban; ban != nil {
		terms := ban.Terms()
		if state, counts := translate.Denied(&terms, terms.Settled(b.bans[i].state, b.now), &d, b.now); counts {
			b.bans[i].state = state
		}
	}
}

// Cancel gives back what a charge took, as [sluice.Store.Cancel] does. The state is the state of the charge's limit and
// key. The error is a *sluice.RequestError or sluice.ErrActed.
func (s *State) Cancel(now int64, c sluice.Charge) error {
	if err := translate.CheckCancel(&c); err != nil {
		return err
	}
	charge := chargeOf(&c)
	if now > c.Limit.Params().Acts(charge) {
		return sluice.ErrActed
	}
	charge = s.convert(now, c.Limit, charge)
	if r := &s.replica; r.Params.Inline() {
		r.State = r.Params.CancelState(r.State, now, charge)
	} else {
		r.Params.CancelWords(r.Words, now, charge)
	}
	return nil
}

// Settle replaces the cost of a charge by the actual cost, as [sluice.Store.Settle] does. The error is a
// *sluice.RequestError, or wraps sluice.ErrUnsupported for a lease.
func (s *State) Settle(now int64, c sluice.Charge, actual int64) error {
	if err := translate.CheckSettle(&c, actual); err != nil {
		return err
	}
	charge := s.convert(now, c.Limit, chargeOf(&c))
	s.grow(now)
	if r := &s.replica; r.Params.Inline() {
		r.State = r.Params.SettleState(r.State, now, charge, actual)
	} else {
		r.Params.SettleWords(r.Words, now, charge, actual)
	}
	return nil
}

// Release ends a lease, as [sluice.Store.Release] does. The error is sluice.ErrLeaseLost if the lease had ended by itself,
// a *sluice.RequestError, or wraps sluice.ErrUnsupported if the limit has no leases.
func (s *State) Release(now int64, c sluice.Charge, latency time.Duration) error {
	if err := translate.CheckRelease(&c); err != nil {
		return err
	}
	s.convert(now, c.Limit, chargeOf(&c))
	if r := &s.replica; !r.Params.Conc.Release(r.Words, now, c.Member, int64(latency/time.Microsecond)) {
		return sluice.ErrLeaseLost
	}
	return nil
}

func chargeOf(c *sluice.Charge) algo.Charge {
	return algo.Charge{Cost: c.Cost, Floor: c.Floor, At: c.Receipt.At, Over: c.Receipt.Over, Member: c.Member}
}

// convert converts a charge to the numbers of the state. A fresh state takes the numbers of the charge.
func (s *State) convert(now int64, l *sluice.Limit, c algo.Charge) algo.Charge {
	if s.open(l); s.Fresh(now) {
		s.replica.Convert(l.Params(), now)
		s.limit = l
		return c
	}
	return s.replica.Params.ConvertCharge(l.Params(), c, now)
}
