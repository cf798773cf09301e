package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/translate"
)

var _ sluice.Banner = (*Store)(nil)

// BanKey bans a key by hand, in the store and then in the local store. See sluice.Banner.
// While the store is down it returns an error, because the ban would not reach other
// processes. If the store is not a Banner, the error wraps errors.ErrUnsupported.
func (s *Store) BanKey(ctx context.Context, l *sluice.Limit, k sluice.Key, d time.Duration) error {
	if err := translate.CheckBan(l, d); err != nil {
		return err
	}
	err := s.about(ctx, k, func(ctx context.Context, store sluice.Store) error {
		b, ok := sluice.As[sluice.Banner](store)
		if !ok {
			return errNoBanner
		}
		return b.BanKey(ctx, l, k, d)
	})
	if err != nil {
		return err
	}
	if local, ok := sluice.As[sluice.Banner](s.o.Local); ok {
		return local.BanKey(ctx, s.scaler.limit(l), k, d)
	}
	return nil
}

// LiftBan ends the ban of a key, in the store and then in the local store. It fails while the store does. See
// sluice.Banner.
func (s *Store) LiftBan(ctx context.Context, l *sluice.Limit, k sluice.Key) (bool, error) {
	if l == nil {
		return false, errNoLimit()
	}
	found := false
	err := s.about(ctx, k, func(ctx context.Context, store sluice.Store) (err error) {
		b, ok := sluice.As[sluice.Banner](store)
		if !ok {
			return errNoBanner
		}
		found, err = b.LiftBan(ctx, l, k)
		return err
	})
	if err != nil {
		return false, err
	}
	if local, ok := sluice.As[sluice.Banner](s.o.Local); ok {
		here, err := local.LiftBan(ctx, s.scaler.limit(l), k)
		return found || here, err
	}
	return found, nil
}

// ListBans returns a page of the store's bans. See sluice.Banner. Bans of the local store are
// not listed. A list that is slow or fails does not open the breaker; it may fail for lack of
// a permission, for example.
func (s *Store) ListBans(ctx context.Context, q sluice.BanQuery) (sluice.BanPage, error) {
	var page sluice.BanPage
	c := s.newCall(func(c *call, store sluice.Store) (err error) {
		b, ok := sluice.As[sluice.Banner](store)
		if !ok {
			return errNoBanner
		}
		page, err = b.ListBans(c.ctx, q)
		return err
	})
	defer s.free(c)
	c.lists = true
	if _, err := s.call(ctx, c, s.lanes.listing()); err != nil {
		return sluice.BanPage{}, err
	}
	return page, nil
}

// listed reports a list of bans to the breaker. A list in time counts as a success. Any other
// outcome does not count, because it shows nothing about decisions.
func (s *Store) listed(ctx context.Context, c *call) error {
	if !c.left && c.err == nil {
		c.succeed()
		return nil
	}
	c.giveUp()
	switch {
	case !c.left:
		return c.err
	case ctx.Err() != nil:
		return fmt.Errorf("guard: left the store's call: %w", ctx.Err())
	default:
		return ErrLate
	}
}
