package overredis

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bench/peers"
	"github.com/sluicehq/sluice/goredisstore"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// single is our store with one limit.
type single struct{ limiter *sluice.Limiter }

func (s single) Take(ctx context.Context, key string) (bool, error) {
	d, err := s.limiter.Allow(ctx, sluice.StringKey(key))
	return d.Allowed && err == nil, err
}

// batch is our store with several limits, decided together.
type batch struct {
	store  *redisstore.Store
	limits []*sluice.Limit
	pool   sync.Pool // of *calls
}

// calls is the memory of one batch. Its caller keeps it, as package policy does.
type calls struct {
	requests  []sluice.Request
	decisions []sluice.Decision
}

func newBatch(s *redisstore.Store, limits []*sluice.Limit) *batch {
	return &batch{store: s, limits: limits, pool: sync.Pool{New: func() any {
		return &calls{make([]sluice.Request, len(limits)), make([]sluice.Decision, len(limits))}
	}}}
}

func (b *batch) Take(ctx context.Context, key string) (bool, error) {
	c := b.pool.Get().(*calls)
	defer b.pool.Put(c)
	for i, l := range b.limits {
		c.requests[i] = sluice.Request{Limit: l, Key: sluice.StringKey(key), Cost: 1}
	}
	if err := b.store.DecideAll(ctx, c.requests, c.decisions); err != nil {
		return false, err
	}
	for _, d := range c.decisions {
		if !d.Allowed {
			return false, nil
		}
	}
	return true, nil
}

// tokenBucket returns a limit with a typical name.
func tokenBucket(name string, l peers.Limit) (*sluice.Limit, error) {
	return sluice.NewLimit(name, sluice.TokenBucket{Rate: sluice.Every(l.Every), Burst: int64(l.Burst)})
}

// overRueidis and overRedis return our store over either client, with default options.
func overRueidis(c clients) (*redisstore.Store, error) {
	return rueidisstore.New(c.options, redisstore.Options{})
}

func overRedis(c clients) (*redisstore.Store, error) {
	return goredisstore.New(c.redis, redisstore.Options{})
}

// openSingle opens a store with one limit.
func openSingle(over func(clients) (*redisstore.Store, error)) func(context.Context, clients, peers.Limit) (peers.RedisLimiter, func() error, error) {
	return func(_ context.Context, c clients, l peers.Limit) (peers.RedisLimiter, func() error, error) {
		limit, err := tokenBucket("api", l)
		if err != nil {
			return nil, nil, err
		}
		store, err := over(c)
		if err != nil {
			return nil, nil, err
		}
		return single{sluice.NewLimiter(store, limit)}, store.Close, nil
	}
}

// openBatch opens a store with four limits.
func openBatch(_ context.Context, c clients, l peers.Limit) (peers.RedisLimiter, func() error, error) {
	limits := make([]*sluice.Limit, 4)
	for i := range limits {
		limit, err := tokenBucket(fmt.Sprint("api", i+1), l)
		if err != nil {
			return nil, nil, err
		}
		limits[i] = limit
	}
	store, err := overRueidis(c)
	if err != nil {
		return nil, nil, err
	}
	return newBatch(store, limits), store.Close, nil
}
