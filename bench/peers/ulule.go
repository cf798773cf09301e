package peers

import (
	"context"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	ululestore "github.com/ulule/limiter/v3/drivers/store/redis"
)

// ulule is a store of fixed windows that open with the key's first request.
type ulule struct{ limiter *limiter.Limiter }

func newUlule(l Limit) (Limiter, error) { return ulule{newUluleLimiter(l)}, nil }

// newUluleLimiter cleans up once an hour instead of every 30 seconds, so that
// no walk over a million keys falls into a measurement.
func newUluleLimiter(l Limit) *limiter.Limiter {
	store := memory.NewStoreWithOptions(limiter.StoreOptions{
		Prefix:          limiter.DefaultPrefix,
		CleanUpInterval: time.Hour,
	})
	return limiter.New(store, limiter.Rate{Period: l.Window, Limit: int64(l.Burst)})
}

func (u ulule) Take(key string) bool {
	c, err := u.limiter.Get(context.Background(), key)
	return !c.Reached && err == nil
}

func (u ulule) Close() {}

func ululeMiddleware(l Limit) (func(http.Handler) http.Handler, error) {
	return stdlib.NewMiddleware(newUluleLimiter(l)).Handler, nil
}

// ululeRedis is a store of fixed windows that open with the key's first request.
type ululeRedis struct{ limiter *limiter.Limiter }

func newUluleRedis(client *redis.Client, l Limit) (RedisLimiter, func() error, error) {
	s, err := ululestore.NewStore(client)
	if err != nil {
		return nil, nil, err
	}
	return ululeRedis{limiter.New(s, limiter.Rate{Period: l.Window, Limit: int64(l.Burst)})}, nothing, nil
}

func (u ululeRedis) Take(ctx context.Context, key string) (bool, error) {
	c, err := u.limiter.Get(ctx, key)
	return !c.Reached && err == nil, err
}
