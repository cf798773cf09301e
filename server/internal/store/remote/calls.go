package remote

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/redisstore"
)

// calls is the store in Redis that the hybrid store calls, and through it the guard. Until the first connection, its
// calls fail.
type calls struct {
	to      atomic.Pointer[redisstore.Store]
	missing atomic.Pointer[error]
	observe func(time.Duration)
	// foreign is called with the error of a decision about a key that holds no state.
	foreign func(error)
}

var _ driver.Sharded = (*calls)(nil)

// miss sets why there is no store yet.
func (r *calls) miss(why error) {
	err := fmt.Errorf("there has been no connection to the store yet: %w", why)
	r.missing.Store(&err)
}

// begin returns the store and the current time, or why there is no store yet.
func (r *calls) begin() (s *redisstore.Store, began time.Time, err error) {
	if s = r.to.Load(); s == nil {
		return nil, began, *r.missing.Load()
	}
	return s, time.Now(), nil
}

// Decide decides one request.
func (r *calls) Decide(ctx context.Context, q sluice.Request) (sluice.Decision, error) {
	s, began, err := r.begin()
	if err != nil {
		return sluice.Decision{}, err
	}
	defer func() { r.observe(time.Since(began)) }()
	d, err := s.Decide(ctx, q)
	return d, r.report(err)
}

// DecideAll decides several requests as one.
func (r *calls) DecideAll(ctx context.Context, qs []sluice.Request, out []sluice.Decision) error {
	s, began, err := r.begin()
	if err != nil {
		return err
	}
	defer func() { r.observe(time.Since(began)) }()
	return r.report(s.DecideAll(ctx, qs, out))
}

// report passes an error on, and reports it if the fault is in one key: the guard goes on calling the store, so
// nothing else would show it.
func (r *calls) report(err error) error {
	if err != nil && r.foreign != nil && errors.Is(err, sluice.ErrForeignState) {
		r.foreign(err)
	}
	return err
}

// Shard returns the number of the server that decides about a key.
func (r *calls) Shard(k sluice.Key) int {
	if s := r.to.Load(); s != nil {
		return s.Shard(k)
	}
	return 0
}

// Cancel gives a charge back.
func (r *calls) Cancel(ctx context.Context, c sluice.Charge) error {
	return r.end(func(s *redisstore.Store) error { return s.Cancel(ctx, c) })
}

// Settle replaces the cost of a charge.
func (r *calls) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	return r.end(func(s *redisstore.Store) error { return s.Settle(ctx, c, actual) })
}

// Release ends a lease.
func (r *calls) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	return r.end(func(s *redisstore.Store) error { return s.Release(ctx, c, latency) })
}

// Reset forgets the state of a key of a limit.
func (r *calls) Reset(ctx context.Context, l *sluice.Limit, k sluice.Key) error {
	return r.end(func(s *redisstore.Store) error { return s.Reset(ctx, l, k) })
}

func (r *calls) end(do func(*redisstore.Store) error) error {
	s, began, err := r.begin()
	if err != nil {
		return err
	}
	defer func() { r.observe(time.Since(began)) }()
	return do(s)
}

var _ sluice.Banner = (*calls)(nil)

// BanKey bans a key of a limit by hand.
func (r *calls) BanKey(ctx context.Context, l *sluice.Limit, k sluice.Key, d time.Duration) error {
	return r.end(func(s *redisstore.Store) error { return s.BanKey(ctx, l, k, d) })
}

// LiftBan ends the ban of a key of a limit.
func (r *calls) LiftBan(ctx context.Context, l *sluice.Limit, k sluice.Key) (found bool, err error) {
	err = r.end(func(s *redisstore.Store) (err error) {
		found, err = s.LiftBan(ctx, l, k)
		return err
	})
	return found, err
}

// ListBans returns a page of the bans in force.
func (r *calls) ListBans(ctx context.Context, q sluice.BanQuery) (page sluice.BanPage, err error) {
	err = r.end(func(s *redisstore.Store) (err error) {
		page, err = s.ListBans(ctx, q)
		return err
	})
	return page, err
}
