package memory

import (
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// model is the simplest possible store: a map of states that grows without bound and forgets
// nothing, one request after the other. Only the algorithms determine its decisions. A Store
// that decides otherwise has lost or mixed up a state.
type model struct {
	now    *int64
	states map[identity]*modelState
	bans   map[banIdentity]algo.State
}

// identity identifies a state, and banIdentity a ban.
type (
	identity struct {
		banIdentity
		kind algo.Kind
	}
	banIdentity struct {
		name string
		key  sluice.Key
	}
)

func identify(l *sluice.Limit, k sluice.Key) identity {
	return identity{banIdentity{l.Name(), k}, l.Params().Kind}
}

// modelState is one state, with more room than it can need.
type modelState struct {
	params *algo.Params
	state  algo.State
	words  []uint64
}

func newModel(now *int64) *model {
	return &model{now, make(map[identity]*modelState), make(map[banIdentity]algo.State)}
}

func freshState(p *algo.Params) *modelState {
	st := &modelState{params: p}
	if !p.Inline() {
		_, most := p.Words()
		st.words = make([]uint64, most+256)
	}
	return st
}

func (st *modelState) copy() *modelState {
	c := *st
	c.words = append([]uint64(nil), st.words...)
	return &c
}

func (st *modelState) fresh(now int64) bool {
	if st.params.Inline() {
		return st.params.FreshState(st.state, now)
	}
	return st.params.FreshWords(st.words, now)
}

// moves reports whether a denial under other numbers changes the state.
func (st *modelState) moves(p *algo.Params, now int64) bool {
	if p.Inline() {
		return p.MovesState(st.params, st.state, now)
	}
	return p.MovesWords(st.params, st.words, now)
}

// await corrects the times of a result that leaves the state as it is, under other numbers.
func (st *modelState) await(p *algo.Params, req *algo.Request, res *algo.Result) {
	switch {
	case st.params == p || res.Allowed && req.Cost > 0 || st.moves(p, req.Now):
	case p.Inline():
		p.AwaitState(st.params, st.state, req, res)
	default:
		p.AwaitWords(st.params, st.words, req, res)
	}
}

// under returns the state converted to other numbers.
func (st *modelState) under(p *algo.Params, now int64) *modelState {
	if st.params == p {
		return st
	}
	next := freshState(p)
	if p.Inline() {
		next.state = p.ConvertState(st.params, st.state, now)
		return next
	}
	next.words = make([]uint64, max(len(next.words), len(st.words)))
	p.ConvertWords(st.params, next.words, st.words, now)
	return next
}

func (st *modelState) decide(req algo.Request) algo.Result {
	if !st.params.Inline() {
		return st.params.DecideWords(st.words, req, true)
	}
	var res algo.Result
	st.state = st.params.DecideState(st.state, &req, &res)
	return res
}

// get returns the state with which a request is decided.
func (m *model) get(l *sluice.Limit, k sluice.Key) *modelState {
	p := l.Params()
	if st := m.states[identify(l, k)]; st != nil {
		return st.under(p, *m.now)
	}
	return freshState(p)
}

// decide decides a request and keeps what it charges.
func (m *model) decide(r *sluice.Request) sluice.Decision {
	if r.Ban == nil {
		return m.decideLimit(r, r.Peek)
	}
	id, terms := identify(r.Limit, r.Key).banIdentity, r.Ban.Terms()
	ban := terms.Settled(m.bans[id], *m.now)
	if !r.Peek {
		m.bans[id] = ban
	}
	if terms.Banned(ban, *m.now) > 0 {
		d := m.decideLimit(r, true)
		after := terms.Attempted(ban, *m.now)
		if !r.Peek {
			m.bans[id] = after
		}
		left := time.Duration(after.T-*m.now) * time.Microsecond
		return sluice.Decision{
			Reason: sluice.ReasonBanned, Limit: r.Limit.Capacity(),
			RetryAfter: max(left, d.RetryAfter), ResetAfter: max(left, d.ResetAfter),
		}
	}
	d := m.decideLimit(r, r.Peek)
	if d.Allowed {
		return d
	}
	next := terms.Denied(ban, *m.now)
	if end := terms.Banned(next, *m.now); end > 0 {
		left := time.Duration(end-*m.now) * time.Microsecond
		d.ResetAfter = max(d.ResetAfter, left)
		if d.Reason != sluice.ReasonNever {
			d.RetryAfter = max(d.RetryAfter, left)
		}
	}
	if !r.Peek {
		m.bans[id] = next
	}
	return d
}

func (m *model) decideLimit(r *sluice.Request, peek bool) sluice.Decision {
	id, v := identify(r.Limit, r.Key), &version{params: r.Limit.Params()}
	req := translate.Request(r)
	req.Now = *m.now
	st, old := m.get(r.Limit, r.Key), m.states[id]
	if peek || r.Cost == 0 {
		c := st.copy()
		res := c.decide(req)
		if old != nil {
			old.await(v.params, &req, &res)
		}
		if res.Allowed {
			req.Cost, req.Member = 0, 0
			c := st.copy()
			left := c.decide(req)
			if old != nil {
				old.await(v.params, &req, &left)
			}
			res.Remaining, res.ResetAfter = left.Remaining, left.ResetAfter
		}
		return translate.Decision(v.params, &res)
	}
	res := st.decide(req)
	if old == nil || old.params == v.params || res.Allowed || old.moves(v.params, *m.now) {
		m.states[id] = st
	} else {
		old.await(v.params, &req, &res)
	}
	return translate.Decision(v.params, &res)
}

// decideAll decides a batch on a copy of everything, which it keeps if all requests are allowed.
func (m *model) decideAll(rs []sluice.Request) []sluice.Decision {
	out := make([]sluice.Decision, len(rs))
	trial := m.copy()
	allowed := true
	for i := range rs {
		r := rs[i]
		if r.Shadow {
			continue
		}
		r.Peek = true
		out[i] = trial.decide(&r)
		allowed = allowed && out[i].Allowed
		if !rs[i].Peek && rs[i].Cost > 0 {
			// The requests after it find it charged, as far as possible.
			r = rs[i]
			r.Ban = nil
			trial.decide(&r)
		}
	}
	for i := range rs {
		if r := rs[i]; !allowed && !r.Shadow && out[i].Allowed { // nothing was charged
			r.Peek = true
			out[i] = m.decide(&r)
		}
	}
	for i := range rs {
		switch {
		case rs[i].Shadow || rs[i].Peek:
		case allowed:
			out[i] = m.decide(&rs[i])
		case !out[i].Allowed:
			m.denied(rs, i)
		}
		if !allowed && !rs[i].Shadow && !rs[i].Peek {
			out[i].Receipt = sluice.Receipt{}
		}
	}
	for i := range rs {
		if rs[i].Shadow {
			out[i] = m.decide(&rs[i])
		}
	}
	return out
}

// denied counts the denials of a batch.
func (m *model) denied(rs []sluice.Request, i int) {
	alone := rs[i]
	alone.Peek = true
	if !m.decide(&alone).Allowed {
		m.decide(&rs[i])
		return
	}
	if alone.Ban != nil {
		id, terms := identify(alone.Limit, alone.Key).banIdentity, alone.Ban.Terms()
		m.bans[id] = terms.Denied(terms.Settled(m.bans[id], *m.now), *m.now)
	}
}

func (m *model) copy() *model {
	c := newModel(m.now)
	for id, st := range m.states {
		c.states[id] = st.copy()
	}
	for id, st := range m.bans {
		c.bans[id] = st
	}
	return c
}

// end settles or cancels a charge, or releases its lease, and reports whether there was one.
func (m *model) end(c sluice.Charge, how func(st *modelState, c algo.Charge) bool) bool {
	id := identify(c.Limit, c.Key)
	st := m.states[id]
	if st == nil {
		st = freshState(c.Limit.Params())
		m.states[id] = st
	}
	charge := algo.Charge{Cost: c.Cost, Floor: c.Floor, At: c.Receipt.At, Over: c.Receipt.Over, Member: c.Member}
	if st.params != c.Limit.Params() && st.fresh(*m.now) {
		st = freshState(c.Limit.Params()) // it may be forgotten
		m.states[id] = st
	}
	if st.params != c.Limit.Params() {
		charge = st.params.ConvertCharge(c.Limit.Params(), charge, *m.now)
	}
	return how(st, charge)
}

// cancel returns sluice.ErrActed, and changes nothing, after the moment at which the charge acts.
func (m *model) cancel(c sluice.Charge) error {
	charge := algo.Charge{Cost: c.Cost, Floor: c.Floor, At: c.Receipt.At, Over: c.Receipt.Over, Member: c.Member}
	if params := c.Limit.Params(); *m.now > params.Acts(charge) {
		return sluice.ErrActed
	}
	m.end(c, func(st *modelState, c algo.Charge) bool {
		if st.params.Inline() {
			st.state = st.params.CancelState(st.state, *m.now, c)
		} else {
			st.params.CancelWords(st.words, *m.now, c)
		}
		return true
	})
	return nil
}

func (m *model) settle(c sluice.Charge, actual int64) {
	m.end(c, func(st *modelState, c algo.Charge) bool {
		if st.params.Inline() {
			st.state = st.params.SettleState(st.state, *m.now, c, actual)
		} else {
			st.params.SettleWords(st.words, *m.now, c, actual)
		}
		return true
	})
}

func (m *model) release(c sluice.Charge, latency time.Duration) bool {
	return m.end(c, func(st *modelState, ch algo.Charge) bool {
		return st.params.Conc.Release(st.words, *m.now, ch.Member, micros(latency))
	})
}

func (m *model) reset(l *sluice.Limit, k sluice.Key) {
	id := identify(l, k)
	delete(m.states, id)
	delete(m.bans, id.banIdentity)
}
