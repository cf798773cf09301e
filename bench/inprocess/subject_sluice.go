package inprocess

import (
	"context"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bench/peers"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// sluiceName is our store in the tables, with its token bucket.
const sluiceName = "sluice"

// roomy is a bound that only the measurements of the bound reach.
const roomy int64 = 8 << 30

// store is our memory store with one limit.
type store struct {
	memory  *memory.Store
	limiter *sluice.Limiter
	leases  bool // a concurrency limit: each decision renews one lease
}

func newStore(bytes int64, a sluice.Algorithm) (*store, error) {
	limit, err := sluice.NewLimit("bench", a)
	if err != nil {
		return nil, err
	}
	m, err := memory.New(memory.Options{MaxBytes: bytes})
	if err != nil {
		return nil, err
	}
	_, leases := a.(sluice.Concurrency)
	return &store{memory: m, limiter: sluice.NewLimiter(m, limit), leases: leases}, nil
}

func (s *store) Take(key string) bool {
	if s.leases {
		d, err := s.memory.Decide(context.Background(), sluice.Request{
			Limit: s.limiter.Limit(), Key: sluice.StringKey(key), Cost: 1, Member: 1,
		})
		return err == nil && d.Allowed
	}
	d, err := s.limiter.Allow(context.Background(), sluice.StringKey(key))
	return err == nil && d.Allowed
}

// Close ignores the error: closing memory cannot fail.
func (s *store) Close() { _ = s.memory.Close() }

func tokenBucket(l peers.Limit) sluice.TokenBucket {
	return sluice.TokenBucket{Rate: sluice.Every(l.Every), Burst: int64(l.Burst)}
}

// sluiceSubjects returns our store with a token bucket.
func sluiceSubjects() []subject {
	return []subject{{sluiceName, ours, true, true, true, func(l peers.Limit, _ int) (peers.Limiter, error) {
		return newStore(roomy, tokenBucket(l))
	}}}
}

// growingAlgorithms have states without a fixed size. They are measured with the others, but have no bar.
var growingAlgorithms = []string{"sluice, sliding log", "sluice, concurrency"}

// sluiceAlgorithms returns our store with each of the other algorithms.
func sluiceAlgorithms() []subject {
	day := sluice.PerDay(1_000_000)
	var all []subject
	for _, a := range []struct {
		name string
		sluice.Algorithm
	}{
		{"token bucket with warm-up", sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000), Burst: 1_000_000, WarmUp: time.Second}},
		{"leaky bucket", sluice.LeakyBucket{Rate: sluice.PerSecond(100), Queue: 1_000_000}},
		{"fixed window", sluice.FixedWindow{Rate: day}},
		{"fixed window, opened", sluice.FixedWindow{Rate: day, Opened: true}},
		{"fixed window, calendar", sluice.FixedWindow{Rate: day, Calendar: sluice.CalendarMonth}},
		{"sliding window", sluice.SlidingWindow{Rate: day}},
		{"sliding window, 100 cells", sluice.SlidingWindow{Rate: day, Cells: 100}},
		{"sliding counter", sluice.SlidingCounter{Rate: day}},
		{"sliding log", sluice.SlidingLog{Rate: sluice.PerDay(1000)}},
		{"concurrency", sluice.Concurrency{Max: 10}},
	} {
		open := func(peers.Limit, int) (peers.Limiter, error) { return newStore(roomy, a.Algorithm) }
		all = append(all, subject{sluiceName + ", " + a.name, ours, true, true, true, open})
	}
	return all
}

// sluiceBounded returns our store with a bound.
func sluiceBounded() []bounded {
	return []bounded{{sluiceName, func(l peers.Limit, bytes int) (peers.Limiter, error) {
		return newStore(int64(bytes), tokenBucket(l))
	}}}
}

// sluiceMiddlewares returns our middleware in its simplest form: one limit, keyed by the client's address,
// with the default headers.
func sluiceMiddlewares() []middleware {
	return []middleware{{sluiceName, func(l peers.Limit) (func(http.Handler) http.Handler, error) {
		s, err := newStore(roomy, tokenBucket(l))
		if err != nil {
			return nil, err
		}
		decider, err := httplimit.NewKeyDecider(httplimit.KeyOptions{
			Store:  s.memory,
			Limits: []*sluice.Limit{s.limiter.Limit()},
			Key:    []policy.Part{policy.ClientIP()},
		})
		if err != nil {
			return nil, err
		}
		m, err := httplimit.New(decider, httplimit.Options{})
		if err != nil {
			return nil, err
		}
		return m.Wrap, nil
	}}}
}
