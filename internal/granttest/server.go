package granttest

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/oracle"
	"github.com/sluicehq/sluice/internal/translate"
)

// Options are the settings of a Server.
type Options struct {
	// Clock is the server's time in microseconds since the Unix epoch.
	Clock func() int64
	// Other decides requests that have nothing to do with grants: algorithms that cannot be granted, and
	// requests with a ban. Default: they fail.
	Other sluice.Store
	// Fault is a defect of the server.
	Fault Fault
	// Charged is called for each charge of an exact decision, with the server's time. The server is locked
	// meanwhile. Default: nothing is called.
	Charged func(c sluice.Charge, at int64)
	// Granted is called in the same way for each claim that is granted units, once.
	Granted func(l *sluice.Limit, k sluice.Key, units, at int64)
}

// Server is a driver.Grantor in memory, for tests. It computes with the oracle. Its methods are safe for
// concurrent use.
//
// The limits of a key may have different numbers, periods and terms.
type Server struct {
	o  Options
	mu sync.Mutex
	db Data
	// charges are the charges of receipts, whose Over is the index.
	charges []oracle.Charge
	states  map[*sluice.Limit]oracle.State // fresh ones
}

// Data is what a Server keeps. It is a value that a test can put back later, as after a failover.
type Data struct{ keys map[rowKey]row }

// rowKey identifies the state of a limit's key.
type rowKey struct {
	id  [2]uint64
	key sluice.Key
}

type row struct {
	limit  *sluice.Limit // the last one, for guesses
	escrow oracle.Escrow
	// When the key was to have all its units again, and units for a request, as last computed.
	reset, retry int64
}

// guess returns roughly what a request returns, which makes the oracle faster.
func (r row) guess(now, cost int64) oracle.Result {
	rate := r.limit.Rate()
	more := int64(float64(cost) * float64(micros(rate.Period())) / float64(rate.Count()))
	return oracle.Result{ResetAfter: max(0, r.reset-now) + more, RetryAfter: max(0, r.retry-now)}
}

// with returns the row after a result.
func (r row) with(l *sluice.Limit, e oracle.Escrow, d oracle.Result, now int64) row {
	return row{l, e, now + d.ResetAfter, now + d.RetryAfter}
}

var _ driver.Grantor = (*Server)(nil)

// New returns a server without states.
func New(o Options) *Server {
	return &Server{o: o, db: Data{map[rowKey]row{}}, charges: make([]oracle.Charge, 1), states: map[*sluice.Limit]oracle.State{}}
}

// Data returns what the server keeps.
func (s *Server) Data() Data {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Data{maps.Clone(s.db.keys)}
}

// Restore puts back what the server kept earlier. The zero Data is empty.
func (s *Server) Restore(d Data) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db = Data{map[rowKey]row{}}
	maps.Copy(s.db.keys, d.keys)
}

// Escrow returns the state of a key.
func (s *Server) Escrow(l *sluice.Limit, k sluice.Key) oracle.Escrow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row(s.db, l, k).escrow
}

// row returns the state of a key.
func (s *Server) row(d Data, l *sluice.Limit, k sluice.Key) row {
	r, found := d.keys[rowKeyOf(l, k)]
	if !found {
		return row{limit: l, escrow: oracle.NewEscrow(s.fresh(l))}
	}
	return r
}

// terms returns the terms of a limit, with its numbers.
func (s *Server) terms(l *sluice.Limit) oracle.Terms {
	t := termsOf(l)
	t.Numbers = s.fresh(l)
	return t
}

// fresh is Fresh, computed once for each limit.
func (s *Server) fresh(l *sluice.Limit) oracle.State {
	f, found := s.states[l]
	if !found {
		f = Fresh(l)
		s.states[l] = f
	}
	return f
}

func rowKeyOf(l *sluice.Limit, k sluice.Key) rowKey { return rowKey{l.ID(), k} }

// errNoOther is the error of a request that the server cannot decide.
var errNoOther = errors.New("granttest: this server answers only claims; wrap another store to decide requests")

// grants reports whether the server itself decides a request.
func grants(r *sluice.Request) bool {
	if r.Limit == nil || r.Ban != nil || r.Check() != nil {
		return false
	}
	switch r.Limit.Params().Kind {
	case algo.KindWarmBucket, algo.KindLeaky, algo.KindConcurrency:
		return false
	}
	return true
}

// Decide implements sluice.Store.
func (s *Server) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if !grants(&r) {
		if s.o.Other == nil {
			return sluice.Decision{}, errNoOther
		}
		return s.o.Other.Decide(ctx, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, after := s.decide(s.db, &r, s.o.Clock())
	if !r.Peek {
		s.db.keys[rowKeyOf(r.Limit, r.Key)] = after
		s.charged(&r, &d)
	}
	return d, nil
}

// decide decides a request and returns the row after it.
func (s *Server) decide(d Data, r *sluice.Request, now int64) (sluice.Decision, row) {
	at := s.row(d, r.Limit, r.Key)
	request := oracle.Request{Now: now, Cost: r.Cost, Floor: r.Floor, MaxWait: translate.MaxWait(r.MaxWait), Debit: r.Debit && !r.Peek}
	if r.Limit.Hybrid() == nil {
		request.MaxWait = max(0, request.MaxWait)
	}
	if r.Peek {
		t := s.terms(r.Limit)
		e := s.o.Fault.at(at.escrow, now, t)
		if s.o.Fault == ExactIgnoresEscrow || s.o.Fault == BooksAtGrant {
			e.Holders = nil
		}
		return s.decision(r.Limit, e.Peek(request, t, at.guess(now, 0)), oracle.Charge{}), at
	}
	result, c, after := s.o.Fault.Decide(at.escrow, request, s.terms(r.Limit), at.guess(now, r.Cost))
	return s.decision(r.Limit, result, c), at.with(r.Limit, after, result, now)
}

// decision returns a result as a decision.
func (s *Server) decision(l *sluice.Limit, r oracle.Result, c oracle.Charge) sluice.Decision {
	d := sluice.Decision{
		Allowed: r.Allowed, Reason: sluice.Reason(r.Reason), Limit: l.Capacity(), Remaining: r.Remaining,
		Delay: translate.Duration(r.Delay), RetryAfter: translate.Duration(r.RetryAfter), ResetAfter: translate.Duration(r.ResetAfter),
	}
	if r.Allowed && c.Cost > 0 {
		d.Receipt = sluice.Receipt{At: c.At, Over: uint64(len(s.charges))}
		s.charges = append(s.charges, c)
	}
	return d
}

func (s *Server) charged(r *sluice.Request, d *sluice.Decision) {
	if s.o.Charged != nil && d.Allowed && r.Cost > 0 {
		s.o.Charged(r.Charge(d), s.o.Clock())
	}
}

// debits reports whether a request is charged whether its batch is allowed or not.
func debits(r *sluice.Request) bool { return r.Debit && !r.Peek && !r.Shadow }

// DecideAll implements sluice.Store. If the server cannot decide one of the requests, the other store
// decides all of them.
func (s *Server) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	for i := range rs {
		if grants(&rs[i]) {
			continue
		}
		if s.o.Other == nil {
			return errNoOther
		}
		return s.o.Other.DecideAll(ctx, rs, out)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, all := s.o.Clock(), true
	for i := range rs {
		if r := &rs[i]; debits(r) {
			var after row
			out[i], after = s.decide(s.db, r, now)
			all = all && out[i].Allowed
			s.db.keys[rowKeyOf(r.Limit, r.Key)] = after
			s.charged(r, &out[i])
		}
	}
	tried := Data{maps.Clone(s.db.keys)}
	for i := range rs {
		if r := &rs[i]; !r.Shadow && !debits(r) {
			var after row
			out[i], after = s.decide(tried, r, now)
			all = all && out[i].Allowed
			if !r.Peek {
				tried.keys[rowKeyOf(r.Limit, r.Key)] = after
			}
		}
	}
	if all {
		s.db = tried
	}
	for i := range rs {
		if r := rs[i]; !all && !r.Shadow && !debits(&r) && out[i].Allowed {
			r.Peek = true
			out[i], _ = s.decide(s.db, &r, now) // nothing was charged
		}
	}
	for i := range rs {
		r := &rs[i]
		switch {
		case r.Shadow:
			var after row
			out[i], after = s.decide(s.db, r, now)
			if !r.Peek {
				s.db.keys[rowKeyOf(r.Limit, r.Key)] = after
				s.charged(r, &out[i])
			}
		case all && !r.Peek && !debits(r):
			s.charged(r, &out[i])
		}
	}
	return nil
}

// Grant implements driver.Grantor.
func (s *Server) Grant(_ context.Context, holder uint64, claims []driver.Claim, out []driver.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Clock()
	for i := range claims {
		c := &claims[i]
		r := sluice.Request{Limit: c.Limit, Key: c.Key, Cost: c.Take, Floor: c.Floor}
		if c.Limit == nil || c.Limit.Hybrid() == nil || !grants(&r) {
			out[i] = driver.Grant{Err: &sluice.RequestError{Problem: "claims units of a limit that has no grants"}}
			continue
		}
		at := s.row(s.db, c.Limit, c.Key)
		g, after := s.o.Fault.Claim(at.escrow, now, holder, claimOf(c), s.terms(c.Limit), at.guess(now, c.Take))
		s.db.keys[rowKeyOf(c.Limit, c.Key)] = at.with(c.Limit, after, g.Result, now)
		out[i] = driver.Grant{
			Stale: g.Stale, Units: g.Units, Held: g.Held, Birth: g.Birth, Now: g.Now, Till: g.Till,
			Free: g.Free, Escrow: g.Escrow, Holders: g.Holders, Demands: g.Demands, Others: g.Others,
			Decision: s.decision(c.Limit, g.Result, g.Charge),
		}
		if g.Repeated {
			continue
		}
		if g.Charge.Cost > 0 {
			s.charged(&r, &out[i].Decision)
		}
		if g.Units > 0 && s.o.Granted != nil {
			s.o.Granted(c.Limit, c.Key, g.Units, now)
		}
	}
}

// Cancel implements sluice.Store.
func (s *Server) Cancel(ctx context.Context, c sluice.Charge) error {
	return s.end(&c, func() error { return s.o.Other.Cancel(ctx, c) }, func(e oracle.Escrow, now int64, c oracle.Charge) oracle.Escrow {
		return e.Cancel(now, c)
	})
}

// Settle implements sluice.Store.
func (s *Server) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	return s.end(&c, func() error { return s.o.Other.Settle(ctx, c, actual) }, func(e oracle.Escrow, now int64, c oracle.Charge) oracle.Escrow {
		return e.Settle(now, c, actual)
	})
}

// end ends a charge of this server, or of the other store.
func (s *Server) end(c *sluice.Charge, other func() error, change func(oracle.Escrow, int64, oracle.Charge) oracle.Escrow) error {
	if r := (sluice.Request{Limit: c.Limit, Key: c.Key}); !grants(&r) {
		if s.o.Other == nil {
			return errNoOther
		}
		return other()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Clock()
	charge := oracle.Charge{Cost: c.Cost, Floor: c.Floor, At: c.Receipt.At, Act: oracle.Rat(c.Receipt.At, 1)}
	if i := c.Receipt.Over; i < uint64(len(s.charges)) && s.charges[i].Cost == c.Cost && s.charges[i].At == c.Receipt.At {
		charge = s.charges[i]
	}
	at := s.row(s.db, c.Limit, c.Key)
	at.escrow = change(at.escrow, now, charge)
	s.db.keys[rowKeyOf(c.Limit, c.Key)] = at
	return nil
}

// Release implements sluice.Store: leases are of the other store.
func (s *Server) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	if s.o.Other == nil {
		return errNoOther
	}
	return s.o.Other.Release(ctx, c, latency)
}

// Reset implements sluice.Store. Grants stay.
func (s *Server) Reset(ctx context.Context, l *sluice.Limit, k sluice.Key) error {
	if r := (sluice.Request{Limit: l, Key: k}); !grants(&r) {
		if s.o.Other == nil {
			return errNoOther
		}
		return s.o.Other.Reset(ctx, l, k)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Clock()
	at := s.row(s.db, l, k)
	at.escrow = at.escrow.Reset(now, s.fresh(l))
	s.db.keys[rowKeyOf(l, k)] = at
	return nil
}
