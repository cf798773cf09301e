package inprocess

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// algorithm is one of ours, with numbers under which keys are live, return with a full budget, or are
// denied.
type algorithm struct {
	name                    string
	live, returning, denied sluice.Algorithm
}

func algorithms() []algorithm {
	day, short, used := sluice.PerDay(1_000_000), sluice.Per(1_000_000, time.Millisecond), sluice.PerDay(1)
	slow, fast := sluice.PerHour(6), sluice.PerSecond(10_000_000)
	return []algorithm{
		{
			name:      "token bucket",
			live:      sluice.TokenBucket{Rate: slow, Burst: 1_000_000},
			returning: sluice.TokenBucket{Rate: fast, Burst: 1_000_000},
			denied:    sluice.TokenBucket{Rate: used, Burst: 1},
		}, {
			name:      "token bucket with warm-up",
			live:      sluice.TokenBucket{Rate: fast, Burst: 1_000_000, WarmUp: time.Second},
			returning: sluice.TokenBucket{Rate: fast, Burst: 1_000_000, WarmUp: time.Millisecond},
			denied:    sluice.TokenBucket{Rate: used, Burst: 1, WarmUp: time.Second},
		}, {
			name:      "leaky bucket",
			live:      sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 1_000_000, Undelayed: 1_000_000},
			returning: sluice.LeakyBucket{Rate: fast, Queue: 1_000_000, Undelayed: 1_000_000},
			denied:    sluice.LeakyBucket{Rate: used},
		}, {
			name:      "fixed window",
			live:      sluice.FixedWindow{Rate: day},
			returning: sluice.FixedWindow{Rate: short},
			denied:    sluice.FixedWindow{Rate: used},
		}, {
			name:      "fixed window, opened",
			live:      sluice.FixedWindow{Rate: day, Opened: true},
			returning: sluice.FixedWindow{Rate: short, Opened: true},
			denied:    sluice.FixedWindow{Rate: used, Opened: true},
		}, {
			name:      "sliding window",
			live:      sluice.SlidingWindow{Rate: day},
			returning: sluice.SlidingWindow{Rate: short},
			denied:    sluice.SlidingWindow{Rate: used},
		}, {
			name:      "sliding counter",
			live:      sluice.SlidingCounter{Rate: day},
			returning: sluice.SlidingCounter{Rate: short},
			denied:    sluice.SlidingCounter{Rate: used},
		}, {
			name:      "sliding log",
			live:      sluice.SlidingLog{Rate: sluice.PerDay(1000)},
			returning: sluice.SlidingLog{Rate: sluice.Per(1000, time.Millisecond)},
			denied:    sluice.SlidingLog{Rate: used},
		}, {
			name:      "concurrency",
			live:      sluice.Concurrency{Max: 10},
			returning: sluice.Concurrency{Max: 10, TTL: time.Millisecond},
			denied:    sluice.Concurrency{Max: 1},
		},
	}
}

// The columns of the table of algorithms.
var states = []string{"live", "returning", "denied"}

// measureAlgorithms times each of our algorithms over many keys, drawn uniformly.
func measureAlgorithms(b *bench) error {
	for _, state := range states {
		if err := measureAlgorithmsIn(b, state); err != nil {
			return err
		}
	}
	return nil
}

// measureAlgorithmsIn times each of our algorithms over keys in one state.
func measureAlgorithmsIn(b *bench, state string) error {
	metric := "algorithm-" + state
	var streams [goroutines]stream
	for g := range streams {
		streams[g] = newStream(b.algorithmKeys, uniformDraw(b.algorithmKeys, int64(g+1)))
	}
	var contenders []contender
	var open limiters
	defer func() { open.close() }()
	wrong := map[string]*atomic.Int64{}
	for _, a := range algorithms() {
		if !b.Wants(metric, a.name) {
			continue
		}
		s, err := openAlgorithm(a, state)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		open = append(open, s)
		for i := range b.algorithmKeys {
			s.Take(key(i))
		}
		if state == "denied" {
			s.member = 2 // member 1 holds the lease
		}
		count := new(atomic.Int64)
		wrong[a.name] = count
		contenders = append(contenders, contender{name: a.name, ops: b.algorithmKeys, take: func(g, ops int) {
			admitted := streams[g].take(s)
			if state == "denied" {
				count.Add(int64(admitted))
			} else {
				count.Add(int64(ops - admitted))
			}
		}})
	}
	for name, stat := range b.race(goroutines, contenders) {
		b.results.Set(metric, name, stat)
	}
	for _, c := range contenders {
		if err := b.tolerate(metric, c.name, wrong[c.name].Load()); err != nil {
			return err
		}
	}
	return nil
}

// algorithmStore is our store with one limit. Each request of a concurrency limit takes the lease of one
// member.
type algorithmStore struct {
	memory *memory.Store
	limit  *sluice.Limit
	member uint64
	wait   time.Duration
}

func openAlgorithm(a algorithm, state string) (*algorithmStore, error) {
	numbers := map[string]sluice.Algorithm{"live": a.live, "returning": a.returning, "denied": a.denied}[state]
	limit, err := sluice.NewLimit("bench", numbers)
	if err != nil {
		return nil, err
	}
	m, err := memory.New(memory.Options{MaxBytes: roomy})
	if err != nil {
		return nil, err
	}
	s := &algorithmStore{memory: m, limit: limit, member: 1}
	if bucket, ok := numbers.(sluice.TokenBucket); ok && bucket.WarmUp > 0 && state != "denied" {
		s.wait = time.Second // a cold bucket delays a request that follows at once
	}
	return s, nil
}

func (s *algorithmStore) Take(key string) bool {
	d, err := s.memory.Decide(context.Background(), sluice.Request{
		Limit: s.limit, Key: sluice.StringKey(key), Cost: 1, Member: s.member, MaxWait: s.wait,
	})
	return err == nil && d.Allowed
}

// Close ignores the error: closing memory cannot fail.
func (s *algorithmStore) Close() { _ = s.memory.Close() }
