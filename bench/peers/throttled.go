package peers

import (
	"context"
	"net/http"

	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/throttled/throttled/v2/store/memstore"
)

// gcra is throttled's generic cell rate algorithm over its memory store,
// unbounded: with a bound it forgets the least recently used key, even if it is
// denied.
type gcra struct{ limiter *throttled.GCRARateLimiterCtx }

func newThrottled(l Limit) (Limiter, error) {
	limiter, err := newGCRA(l, 0)
	return gcra{limiter}, err
}

// NewThrottledLRU returns throttled bounded to maxKeys keys.
func NewThrottledLRU(l Limit, maxKeys int) (Limiter, error) {
	limiter, err := newGCRA(l, maxKeys)
	return gcra{limiter}, err
}

func newGCRA(l Limit, maxKeys int) (*throttled.GCRARateLimiterCtx, error) {
	store, err := memstore.NewCtx(maxKeys)
	if err != nil {
		return nil, err
	}
	return throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(1, l.Every),
		MaxBurst: l.Burst - 1,
	})
}

func (g gcra) Take(key string) bool {
	limited, _, err := g.limiter.RateLimitCtx(context.Background(), key, 1)
	return !limited && err == nil
}

func (g gcra) Close() {}

func throttledMiddleware(l Limit) (func(http.Handler) http.Handler, error) {
	limiter, err := newGCRA(l, 0)
	if err != nil {
		return nil, err
	}
	h := throttled.HTTPRateLimiterCtx{
		RateLimiter: limiter,
		VaryBy:      &throttled.VaryBy{RemoteAddr: true},
	}
	return h.RateLimit, nil
}

// gcraRedis is throttled's generic cell rate algorithm: it reads, decides in this
// process, and writes if the value has not changed. It tries ten times.
type gcraRedis struct{ limiter *throttled.GCRARateLimiterCtx }

func newThrottledRedis(client *redis.Client, l Limit) (RedisLimiter, func() error, error) {
	store, err := goredisstore.NewCtx(client, "")
	if err != nil {
		return nil, nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(1, l.Every),
		MaxBurst: l.Burst - 1,
	})
	return gcraRedis{limiter}, nothing, err
}

func (g gcraRedis) Take(ctx context.Context, key string) (bool, error) {
	limited, _, err := g.limiter.RateLimitCtx(ctx, key, 1)
	return !limited && err == nil, err
}
