package redispeers

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"

	"github.com/sluicehq/sluice/checks/peers"
)

// gcra is throttled's generic cell rate algorithm: it reads, decides itself,
// and writes if nobody else wrote meanwhile, which it tries ten times.
type gcra struct{ limiter *throttled.GCRARateLimiterCtx }

func newThrottled(client *redis.Client, l peers.Limit) (Limiter, func() error, error) {
	store, err := goredisstore.NewCtx(client, "")
	if err != nil {
		return nil, nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(1, l.Every),
		MaxBurst: l.Burst - 1,
	})
	return gcra{limiter}, nothing, err
}

func (g gcra) Take(ctx context.Context, key string) (bool, error) {
	limited, _, err := g.limiter.RateLimitCtx(ctx, key, 1)
	return !limited && err == nil, err
}
