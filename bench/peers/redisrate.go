package peers

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// redisRate is a generic cell rate algorithm in one script.
type redisRate struct {
	limiter *redis_rate.Limiter
	limit   redis_rate.Limit
}

func newRedisRate(client *redis.Client, l Limit) (RedisLimiter, func() error, error) {
	return redisRate{
		redis_rate.NewLimiter(client),
		redis_rate.Limit{Rate: 1, Period: l.Every, Burst: l.Burst},
	}, nothing, nil
}

func (r redisRate) Take(ctx context.Context, key string) (bool, error) {
	res, err := r.limiter.Allow(ctx, key, r.limit)
	return err == nil && res.Allowed == 1, err
}
