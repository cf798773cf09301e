package hybrid

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// Cancel gives back what a charge took. See sluice.Store. A charge in hand goes back into the hand, in
// the moment in which it acts.
// It returns the errors of the wrapped store.
func (s *Store) Cancel(ctx context.Context, c sluice.Charge) error {
	if err := translate.CheckCancel(&c); err != nil {
		return err
	}
	if s.closed.Load() {
		return sluice.ErrClosed
	}
	if local(c.Receipt) {
		if done, err := s.correct(&c, 0, true); done {
			return err
		}
	}
	return s.backend.Cancel(ctx, remote(c))
}

// Settle replaces the cost of a charge. See sluice.Store. A charge in hand is settled in hand.
// It returns the errors of the wrapped store.
func (s *Store) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	if err := translate.CheckSettle(&c, actual); err != nil {
		return err
	}
	if s.closed.Load() {
		return sluice.ErrClosed
	}
	if local(c.Receipt) {
		if done, err := s.correct(&c, actual, false); done {
			return err
		}
	}
	err := s.backend.Settle(ctx, remote(c), actual)
	if e := s.table.lookup(c.Limit, c.Key); e != nil && c.Receipt.At == algo.Newest {
		e.lock()
		e.forgive() // there may be units again
		e.unlock()
	}
	return err
}

// local reports whether a receipt is of a local charge.
func local(r sluice.Receipt) bool { return (r.At^r.At>>63)&localBit != 0 }

// remote returns a charge as the wrapped store has it.
func remote(c sluice.Charge) sluice.Charge {
	if local(c.Receipt) {
		c.Receipt = sluice.Receipt{At: c.Receipt.At ^ localBit}
	}
	return c
}

// correct changes the cost of a charge in hand. It is not done if the charge was reported or is gone, or if too few
// units are left. A charge that has acted is not cancelled.
func (s *Store) correct(c *sluice.Charge, actual int64, cancel bool) (done bool, err error) {
	e := s.table.lookup(c.Limit, c.Key)
	if e == nil {
		return false, nil
	}
	now := s.clock.now()
	e.lock()
	defer e.unlock()
	if cancel && c.Cost > 0 && e.seen.offset+now.mono/1000 > c.Receipt.At^localBit {
		return true, sluice.ErrActed
	}
	h := &e.hand
	more := actual - c.Cost
	if e.dead || e.stamp != c.Receipt.Over || !now.before(h.deadline) || more > h.left || h.unreported() < -more {
		return false, nil
	}
	h.left -= more
	return true, nil
}

// Release ends a lease. Leases are always of the wrapped store. See sluice.Store.
// It returns the errors of the wrapped store.
func (s *Store) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	if s.closed.Load() {
		return sluice.ErrClosed
	}
	return s.backend.Release(ctx, c, latency)
}

// Reset forgets what a limit's key has used, and its denials. See sluice.Store. Units in hand, of
// any process, can still be spent. Other processes may keep a denial for up to 100 milliseconds.
// It returns the errors of the wrapped store.
func (s *Store) Reset(ctx context.Context, l *sluice.Limit, k sluice.Key) error {
	if l == nil {
		return &sluice.RequestError{Problem: "has no limit"}
	}
	if s.closed.Load() {
		return sluice.ErrClosed
	}
	err := s.backend.Reset(ctx, l, k)
	if e := s.table.lookup(l, k); e != nil {
		e.lock()
		e.forgive()
		e.exact = 0
		e.unlock()
	}
	return err
}

// Shard returns the number of the server that decides about a key, if the wrapped store is a
// driver.Sharded, and otherwise 0.
func (s *Store) Shard(k sluice.Key) int {
	if s.sharded == nil {
		return 0
	}
	return s.sharded.Shard(k)
}

// Grant passes claims on to the wrapped store. See driver.Grantor.
func (s *Store) Grant(ctx context.Context, holder uint64, claims []driver.Claim, out []driver.Grant) {
	s.backend.Grant(ctx, holder, claims, out)
}

// errNoBanner reports a wrapped store that is not a sluice.Banner.
var errNoBanner = fmt.Errorf("hybrid: the store supports no list of bans, and no bans by hand: %w", errors.ErrUnsupported)

// bans returns the wrapped store as a sluice.Banner.
func (s *Store) bans() (sluice.Banner, error) {
	switch {
	case s.closed.Load():
		return nil, sluice.ErrClosed
	case s.banner == nil:
		return nil, errNoBanner
	}
	return s.banner, nil
}

// BanKey bans a key by hand. See sluice.Banner. If the wrapped store is not a Banner, the error of
// this method and of the next two wraps errors.ErrUnsupported.
func (s *Store) BanKey(ctx context.Context, l *sluice.Limit, k sluice.Key, d time.Duration) error {
	b, err := s.bans()
	if err != nil {
		return err
	}
	return b.BanKey(ctx, l, k, d)
}

// LiftBan ends the ban of a key. See sluice.Banner.
// It returns the errors of the wrapped store.
func (s *Store) LiftBan(ctx context.Context, l *sluice.Limit, k sluice.Key) (bool, error) {
	b, err := s.bans()
	if err != nil {
		return false, err
	}
	return b.LiftBan(ctx, l, k)
}

// ListBans returns a page of the bans in force. See sluice.Banner.
// It returns the errors of the wrapped store.
func (s *Store) ListBans(ctx context.Context, q sluice.BanQuery) (sluice.BanPage, error) {
	b, err := s.bans()
	if err != nil {
		return sluice.BanPage{}, err
	}
	return b.ListBans(ctx, q)
}
