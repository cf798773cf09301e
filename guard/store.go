package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/retry"
)

// Store is a sluice.Store that wraps a store that may fail. While that store fails, decisions
// do not return errors: the fallback of the limit decides, and the decision is Degraded.
// Reset, and the calls that end reservations and leases, return an error then. If nothing was
// changed, the call can be tried again; see sluice.Reservation. A Store is safe for concurrent
// use.
//
// If the wrapped store is a driver.LocalDecider, such as the one of package hybrid, it decides what
// it can by itself: without a deadline, and while the breaker is open too. See docs/adr/0032.
//
// A Store is not a driver.Taker: Take would save only a hundredth of the time of a call. The
// goroutine of a call ends with the call. The guard calls the store only for requests, with
// one exception. It ends a lease by itself if the store may have granted the lease without the
// caller's knowledge.
type Store struct {
	o         Options
	near      driver.LocalDecider // the guarded store, or nil
	fallback  atomic.Pointer[func(*sluice.Limit) sluice.Fallback]
	hooks     hooks
	lanes     lanes
	deadlines deadlines
	scaler    scaler
	leases    leases
	calls     sync.Pool // *call
	doubts    retry.Later

	shed, refused, givenUp, failed, late, slow atomic.Uint64
	locals, allows, denials, holds             atomic.Uint64
}

var (
	_ sluice.Store        = (*Store)(nil)
	_ driver.LocalDecider = (*Store)(nil)
)

// New returns a store that guards Options.Store. The error names the missing or wrong option. A guard starts no
// goroutine and has no Close: close Options.Store and Options.Local.
func New(o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	near, _ := o.Store.(driver.LocalDecider)
	s := &Store{o: o, near: near, doubts: retry.Later{Most: mostDoubts, First: firstDoubt, Last: lastDoubt}}
	s.hooks.hook = o.OnTransition
	s.lanes.init(&s.o, &s.hooks)
	s.deadlines.init(o.Deadline)
	s.scaler.part = share(o.Share)
	s.leases.init(o.MaxLeases)
	s.calls.New = newCall
	s.SetFallback(o.Fallback)
	return s, nil
}

// State returns the state of the circuit breaker. It stays StateOpen until the next request. A Sharded
// store has a breaker for each shard, and State returns the worst of them: StateOpen, if one is. An open
// breaker without a request for a minute does not count there, because its shard may be gone.
func (s *Store) State() State { return s.lanes.state() }

// Stats are figures about a Store since it was made.
type Stats struct {
	// State is the state that Store.State returns.
	State State
	// Since is when a breaker has changed its state last.
	Since time.Time
	// Shards counts the breakers: one, or as many as shards that a Sharded store has named.
	// Failing counts the breakers that are not StateClosed.
	Shards, Failing int
	// InFlight is how many calls of the store have not returned. A batch counts once for each of
	// its shards.
	InFlight int
	// Leases is how many leases are remembered.
	Leases int

	// Answered counts the calls that the store answered, including the Slow ones.
	Answered, Slow uint64
	// Failed counts the calls that returned an error or did not return in time, including
	// the Late ones.
	Failed, Late uint64
	// GivenUp counts the calls whose caller's own context ended.
	GivenUp uint64
	// Refused counts the calls that the open breaker prevented, and Shed the calls that were
	// not made because too many were in flight.
	Refused, Shed uint64
	// Local, Allowed and Denied count the decisions of each fallback. Held counts the
	// decisions about leases that the store had granted before it failed. Each request of a
	// batch counts.
	Local, Allowed, Denied, Held uint64
	// Opened counts how often the breaker changed from StateClosed to StateOpen.
	Opened uint64
	// Last is the last failure, nil if there was none.
	Last error
}

// Stats returns the current figures. It reads them one after another.
func (s *Store) Stats() Stats {
	st := Stats{
		Leases:  s.leases.len(),
		Slow:    s.slow.Load(),
		Failed:  s.failed.Load(),
		Late:    s.late.Load(),
		GivenUp: s.givenUp.Load(),
		Refused: s.refused.Load(),
		Shed:    s.shed.Load(),
		Local:   s.locals.Load(),
		Allowed: s.allows.Load(),
		Denied:  s.denials.Load(),
		Held:    s.holds.Load(),
	}
	s.lanes.stats(&st)
	st.Answered += st.Slow
	return st
}

// DecideLocally decides a request if the wrapped store can do so by itself. See driver.LocalDecider.
func (s *Store) DecideLocally(r sluice.Request) (d sluice.Decision, ok bool) {
	if s.near == nil {
		return d, false
	}
	return s.near.DecideLocally(r)
}

// DecideAllLocally decides a batch if the wrapped store can do so by itself. See driver.LocalDecider.
func (s *Store) DecideAllLocally(rs []sluice.Request, out []sluice.Decision) bool {
	return s.near != nil && s.near.DecideAllLocally(rs, out)
}

// Decide decides one request. See sluice.Store.
// It returns an error for an invalid request, if the caller's context ends first, and if the fallback fails too.
func (s *Store) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if d, ok := s.DecideLocally(r); ok {
		return d, nil
	}
	if takesLease(&r) {
		return s.decideLease(ctx, &r)
	}
	d, down, err := s.decideOne(ctx, &r)
	if down {
		d, _, err = s.fallBack(ctx, &r, err)
	}
	return d, err
}

// decideOne lets the store decide one request.
func (s *Store) decideOne(ctx context.Context, r *sluice.Request) (d sluice.Decision, down bool, err error) {
	c := s.newCall(decide)
	defer s.free(c)
	c.request = *r
	if down, err = s.call(ctx, c, s.lanes.of(r.Key)); err == nil {
		d = c.decision
	}
	return d, down, err
}

// DecideAll decides several requests as one. See sluice.Store. If the store does not decide,
// the fallback of each request does. Nothing is charged if one of them is denied. A lease that
// a batch renews belongs to the layer that decides the batch.
// It returns an error for an invalid request, if the caller's context ends first, and if the fallback fails too.
func (s *Store) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	if len(out) != len(rs) {
		return fmt.Errorf("guard: DecideAll has %d requests and room for %d decisions; give as many", len(rs), len(out))
	}
	if s.DecideAllLocally(rs, out) {
		return nil
	}
	c := s.newCall(decideAll)
	defer s.free(c)
	if err := ctx.Err(); err != nil {
		return err
	}
	away, why := s.enterAll(c, rs)
	switch {
	case len(c.uses) == 0:
		return s.fallBackAll(ctx, rs, out, why)
	case away != nil:
		return s.split(ctx, c, rs, out, away, why)
	}
	c.requests = append(c.requests[:0], rs...)
	c.decisions = append(c.decisions[:0], out...)
	down, err := s.make(ctx, c)
	s.doubtAll(rs, err)
	switch {
	case down && len(rs) > 1 && errors.Is(err, sluice.ErrForeignState) && areShadows(rs) && !errors.Is(err, sluice.ErrUnknownOutcome):
		return s.decideEach(ctx, rs, out)
	case down:
		return s.fallBackAll(ctx, rs, out, err)
	case err != nil:
		return err
	}
	copy(out, c.decisions)
	s.rememberAll(ctx, rs, out)
	return nil
}

// decideEach decides shadows by calls of their own, so that the fallback decides only about the key whose state is foreign.
func (s *Store) decideEach(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	for i := range rs {
		if err := s.DecideAll(ctx, rs[i:i+1], out[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// areShadows reports whether all requests are shadows, so that none depends on another.
func areShadows(rs []sluice.Request) bool {
	return !slices.ContainsFunc(rs, func(r sluice.Request) bool { return !r.Shadow })
}

// Cancel gives back what a charge took, where it was granted. See sluice.Store.
// Errors are as in sluice.Store.
func (s *Store) Cancel(ctx context.Context, c sluice.Charge) error {
	var err error
	limit := c.Limit
	switch s.grantor(&c) {
	case byLocal:
		err = s.o.Local.Cancel(ctx, c)
	case byStore:
		err = s.endLease(ctx, &c, func(ctx context.Context, store sluice.Store) error { return store.Cancel(ctx, c) })
	}
	s.ended(limit, &c, err)
	return err
}

// Settle replaces the cost of a charge, where it was granted. See sluice.Store.
// Errors are as in sluice.Store.
func (s *Store) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	switch s.grantor(&c) {
	case byLocal:
		return s.o.Local.Settle(ctx, c, actual)
	case byStore:
		return s.about(ctx, c.Key, func(ctx context.Context, store sluice.Store) error { return store.Settle(ctx, c, actual) })
	}
	switch {
	case actual < 0:
		return &sluice.RequestError{Limit: c.Limit.Name(), Problem: "the actual cost is negative; give 0 or more"}
	case c.Limit.IsConcurrency():
		return fmt.Errorf("%w: limit %q grants leases, which are released, not settled", sluice.ErrUnsupported, c.Limit.Name())
	}
	return nil
}

// Release ends a lease, where it was granted. See sluice.Store. If the store does not end it,
// Release returns an error, and the guard repeats the call later.
func (s *Store) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	var err error
	limit := c.Limit
	switch s.grantor(&c) {
	case byLocal:
		err = s.o.Local.Release(ctx, c, latency)
	case byStore:
		err = s.endLease(ctx, &c, func(ctx context.Context, store sluice.Store) error { return store.Release(ctx, c, latency) })
	default:
		if !c.Limit.IsConcurrency() {
			err = fmt.Errorf("%w: limit %q grants no leases", sluice.ErrUnsupported, c.Limit.Name())
		}
	}
	s.ended(limit, &c, err)
	return err
}

// Reset deletes the state of a limit's key, and its ban, in the store and then in the local
// store. It fails while the store does.
func (s *Store) Reset(ctx context.Context, l *sluice.Limit, k sluice.Key) error {
	if l == nil {
		return errNoLimit()
	}
	err := s.about(ctx, k, func(ctx context.Context, store sluice.Store) error { return store.Reset(ctx, l, k) })
	if err != nil || s.o.Local == nil {
		return err
	}
	return s.o.Local.Reset(ctx, s.scaler.limit(l), k)
}

func errNoLimit() error { return &sluice.RequestError{Problem: "has no limit"} }
