package app

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
)

// Ban bans a key of a rule by hand.
func (e *engine) Ban(ctx context.Context, d time.Duration, rule string, key ...string) error {
	return e.decider.Policy().Ban(ctx, e.store, d, rule, key...)
}

// LiftBan ends the ban of a key of a rule.
func (e *engine) LiftBan(ctx context.Context, rule string, key ...string) (bool, error) {
	return e.decider.Policy().LiftBan(ctx, e.store, rule, key...)
}

// ListBans returns a page of the bans in force.
func (e *engine) ListBans(ctx context.Context, q sluice.BanQuery) ([]policy.BannedKey, string, error) {
	return e.decider.Policy().ListBans(ctx, e.store, q)
}

// KeyValues returns the values of a key of a rule.
func (e *engine) KeyValues(rule string, k sluice.Key) []string {
	return e.decider.Policy().KeyValues(rule, k)
}

var _ sluice.Banner = (*remote)(nil)

// BanKey bans a key of a limit by hand.
func (r *remote) BanKey(ctx context.Context, l *sluice.Limit, k sluice.Key, d time.Duration) error {
	return r.end(func(s *redisstore.Store) error { return s.BanKey(ctx, l, k, d) })
}

// LiftBan ends the ban of a key of a limit.
func (r *remote) LiftBan(ctx context.Context, l *sluice.Limit, k sluice.Key) (found bool, err error) {
	err = r.end(func(s *redisstore.Store) (err error) {
		found, err = s.LiftBan(ctx, l, k)
		return err
	})
	return found, err
}

// ListBans returns a page of the bans in force.
func (r *remote) ListBans(ctx context.Context, q sluice.BanQuery) (page sluice.BanPage, err error) {
	err = r.end(func(s *redisstore.Store) (err error) {
		page, err = s.ListBans(ctx, q)
		return err
	})
	return page, err
}
