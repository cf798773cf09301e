package overredis

import (
	"context"

	"github.com/sluicehq/sluice/bench/floor"
	"github.com/sluicehq/sluice/bench/peers"
)

// A subject is a limiter to measure.
type subject struct {
	name string

	// open makes one. end closes it, and may be nil.
	open func(ctx context.Context, c clients, l peers.Limit) (limiter peers.RedisLimiter, end func() error, err error)
}

// The names that bars use.
const (
	sluiceName    = "sluice, rueidis"
	sluiceGoName  = "sluice, go-redis"
	minimalName   = "minimal, rueidis"
	minimalGoName = "minimal, go-redis"
	return1Name   = "return 1, rueidis"
	redisRateName = "go-redis/redis_rate"

	sluiceBatchName = "sluice, 4 limits"
	floorBatchName  = "MGET + 4 SET"
)

// subjects returns all subjects. Subjects that the bars compare are next to each other, in the tables and
// in time.
func subjects() []subject {
	all := []subject{
		{sluiceName, openSingle(overRueidis)},
		{minimalName, openMinimal},
		{return1Name, openReturn1},
		{sluiceGoName, openSingle(overRedis)},
		{minimalGoName, openMinimalGo},
	}
	for _, p := range peers.AllRedis() {
		all = append(all, subject{p.Name, func(_ context.Context, c clients, l peers.Limit) (peers.RedisLimiter, func() error, error) {
			return p.New(c.redis, l)
		}})
	}
	return all
}

// batchSubjects returns the subjects that decide four limits of a key at once.
func batchSubjects() []subject {
	return []subject{{sluiceBatchName, openBatch}, {floorBatchName, openFloorBatch}}
}

func openMinimal(ctx context.Context, c clients, l peers.Limit) (peers.RedisLimiter, func() error, error) {
	m, err := floor.NewMinimal(ctx, c.rueidis, l.Every, l.Burst)
	return m, nil, err
}

func openMinimalGo(ctx context.Context, c clients, l peers.Limit) (peers.RedisLimiter, func() error, error) {
	m, err := floor.NewMinimalGo(ctx, c.redis, l.Every, l.Burst)
	return m, nil, err
}

func openReturn1(ctx context.Context, c clients, _ peers.Limit) (peers.RedisLimiter, func() error, error) {
	r, err := floor.NewReturn1(ctx, c.rueidis)
	return r, nil, err
}

func openFloorBatch(ctx context.Context, c clients, l peers.Limit) (peers.RedisLimiter, func() error, error) {
	b, err := floor.NewBatch(ctx, c.rueidis, l.Window)
	return b, nil, err
}
