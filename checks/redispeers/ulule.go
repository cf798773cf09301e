package redispeers

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	store "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/sluicehq/sluice/checks/peers"
)

// ulule is a store of fixed windows that open with the key's first request.
type ulule struct{ limiter *limiter.Limiter }

func newUlule(client *redis.Client, l peers.Limit) (Limiter, func() error, error) {
	s, err := store.NewStore(client)
	if err != nil {
		return nil, nil, err
	}
	return ulule{limiter.New(s, limiter.Rate{Period: l.Window, Limit: int64(l.Burst)})}, nothing, nil
}

func (u ulule) Take(ctx context.Context, key string) (bool, error) {
	c, err := u.limiter.Get(ctx, key)
	return !c.Reached && err == nil, err
}
