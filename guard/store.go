package guard

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/retry"
)

// Store is a sluice.Store over one that may fail. Decisions give no error for that:
// what stands in for the store makes them, and they say Degraded. Ends of reservations and
// leases, and resets, that the store cannot make do give an error: those that changed nothing
// can be tried again, see sluice.Reservation.
//
// It is no sluice.Taker: what that saves is a hundredth of what a call of a store
// that may fail takes. It is safe for concurrent use. The goroutines of calls end with these, and the
// store is asked again when a caller comes; by itself, the guard ends leases of which it does not know whether the
// store granted them.
type Store struct {
	o         Options
	fallback  atomic.Pointer[func(*sluice.Limit) Fallback]
	breaker   breaker
	deadlines deadlines
	scaler    scaler
	leases    leases
	calls     sync.Pool // *call
	doubts    retry.Later

	inFlight                                   atomic.Int64
	shed, refused, givenUp, failed, late, slow atomic.Uint64
	locals, allows, denials, holds             atomic.Uint64
}

var _ sluice.Store = (*Store)(nil)

// New returns a store that guards another.
func New(o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Store{o: o, doubts: retry.Later{Most: mostDoubts, First: firstDoubt, Last: lastDoubt}}
	s.breaker.init(&o)
	s.deadlines.init(o.Deadline)
	s.scaler.share = o.Share
	s.leases.init(o.MaxLeases)
	s.calls.New = newCall
	s.SetFallback(o.Fallback)
	return s, nil
}

// SetFallback replaces Options.Fallback, as when a policy was loaded anew. Decisions
// that are under way may still ask the old one. Nil leaves all limits to Options.Default.
func (s *Store) SetFallback(f func(l *sluice.Limit) Fallback) { s.fallback.Store(&f) }

// fallbackOf returns what stands in for the store for a limit.
func (s *Store) fallbackOf(l *sluice.Limit) Fallback {
	f := Default
	if ask := *s.fallback.Load(); ask != nil {
		f = ask(l)
	}
	if f == Default || f > Deny {
		f = s.o.Default
	}
	if f == Local && s.o.Local == nil {
		return Allow // see docs/adr/0006
	}
	return f
}

// State returns the state of the circuit breaker. It stays Open until somebody asks.
func (s *Store) State() State { return s.breaker.state() }

// Stats returns the figures as of now. They are read one after another.
func (s *Store) Stats() Stats {
	st := Stats{
		InFlight: int(s.inFlight.Load()),
		Leases:   s.leases.len(),
		Slow:     s.slow.Load(),
		Failed:   s.failed.Load(),
		Late:     s.late.Load(),
		GivenUp:  s.givenUp.Load(),
		Refused:  s.refused.Load(),
		Shed:     s.shed.Load(),
		Local:    s.locals.Load(),
		Allowed:  s.allows.Load(),
		Denied:   s.denials.Load(),
		Held:     s.holds.Load(),
	}
	s.breaker.stats(&st)
	st.Answered += st.Slow
	return st
}

// Decide answers one request. See sluice.Store.
func (s *Store) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if takesLease(&r) {
		return s.decideLease(ctx, &r)
	}
	d, down, err := s.askOne(ctx, &r)
	if down {
		d, _, err = s.standIn(ctx, &r, err)
	}
	return d, err
}

// askOne puts one request to the store.
func (s *Store) askOne(ctx context.Context, r *sluice.Request) (d sluice.Decision, down bool, err error) {
	c := s.newCall(decide)
	defer s.free(c)
	c.request = *r
	if down, err = s.ask(ctx, c); err == nil {
		d = c.decision
	}
	return d, down, err
}

// DecideAll answers several requests as one. See sluice.Store. What the store does not
// decide is decided by the ladder of each: if one is denied outright, or one of those that are
// limited locally is denied, nothing is charged. A lease that is asked for again in a batch
// belongs to who answers the batch.
func (s *Store) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	if len(out) != len(rs) {
		return fmt.Errorf("guard: DecideAll has %d requests and room for %d decisions; give as many", len(rs), len(out))
	}
	c := s.newCall(decideAll)
	defer s.free(c)
	c.requests = append(c.requests[:0], rs...)
	c.decisions = append(c.decisions[:0], out...)
	down, err := s.ask(ctx, c)
	s.doubtAll(rs, err)
	switch {
	case down:
		return s.standInAll(ctx, rs, out, err)
	case err != nil:
		return err
	}
	copy(out, c.decisions)
	s.rememberAll(ctx, rs, out)
	return nil
}

// Cancel gives back what a charge took, to who granted it. See sluice.Store.
func (s *Store) Cancel(ctx context.Context, c sluice.Charge) error {
	var err error
	limit := c.Limit
	switch s.grantor(&c) {
	case byLocal:
		err = s.o.Local.Cancel(ctx, c)
	case byStore:
		err = s.end(ctx, cancelCharge, &c, 0, 0)
	}
	s.ended(limit, &c, err)
	return err
}

// Settle replaces the cost of a charge, where it was made. See sluice.Store.
func (s *Store) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	switch s.grantor(&c) {
	case byLocal:
		return s.o.Local.Settle(ctx, c, actual)
	case byStore:
		return s.end(ctx, settle, &c, actual, 0)
	}
	switch {
	case actual < 0:
		return &sluice.RequestError{Limit: c.Limit.Name(), Problem: "the actual cost is negative; give 0 or more"}
	case c.Limit.IsConcurrency():
		return fmt.Errorf("%w: limit %q grants leases, which are released, not settled", sluice.ErrUnsupported, c.Limit.Name())
	}
	return nil
}

// Release ends a lease, where it is held. See sluice.Store.
func (s *Store) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	var err error
	limit := c.Limit
	switch s.grantor(&c) {
	case byLocal:
		err = s.o.Local.Release(ctx, c, latency)
	case byStore:
		err = s.end(ctx, release, &c, 0, latency)
	default:
		if !c.Limit.IsConcurrency() {
			err = fmt.Errorf("%w: limit %q grants no leases", sluice.ErrUnsupported, c.Limit.Name())
		}
	}
	s.ended(limit, &c, err)
	return err
}

// end ends a charge of the store.
func (s *Store) end(ctx context.Context, op op, charge *sluice.Charge, actual int64, latency time.Duration) error {
	c := s.newCall(op)
	defer s.free(c)
	c.charge, c.actual, c.latency = *charge, actual, latency
	_, err := s.ask(ctx, c)
	return err
}

// Reset forgets the state of a limit's key, and its ban, in the store and then in the
// local one.
func (s *Store) Reset(ctx context.Context, l *sluice.Limit, k sluice.Key) error {
	if l == nil {
		return errNoLimit()
	}
	c := s.newCall(reset)
	defer s.free(c)
	c.limit, c.key = l, k
	if _, err := s.ask(ctx, c); err != nil || s.o.Local == nil {
		return err
	}
	return s.o.Local.Reset(ctx, s.scaler.limit(l), k)
}

func errNoLimit() error { return &sluice.RequestError{Problem: "has no limit"} }
