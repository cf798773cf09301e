package decisions

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
)

// leaseWalks are versions of one concurrency limit, and a time that matters.
var leaseWalks = []struct {
	unit     time.Duration
	versions []sluice.Concurrency
}{
	{time.Second, []sluice.Concurrency{{Max: 1}}},
	{time.Second, []sluice.Concurrency{{Max: 5, TTL: 10 * time.Second}}},
	{time.Second, []sluice.Concurrency{{Max: 3, Queue: 10, TTL: 10 * time.Second, Latency: 2 * time.Second}}},
	{time.Microsecond, []sluice.Concurrency{{Max: 7, Queue: 20, TTL: time.Millisecond, Latency: 13 * time.Microsecond}}},
	{time.Second, []sluice.Concurrency{{Max: 1, Queue: 65535, TTL: 30 * 24 * time.Hour, Latency: time.Hour}}},
	{time.Second, []sluice.Concurrency{{Max: 65536, TTL: 97 * time.Second}}},
	{time.Second, []sluice.Concurrency{
		{Max: 10, Queue: 5, TTL: time.Minute, Latency: time.Second},
		{Max: 2, Queue: 3, TTL: 3 * time.Second},
		{Max: 100, TTL: time.Hour, Latency: time.Minute},
	}},
	// A latency that is forgotten under one time to live is not under another.
	{time.Second, []sluice.Concurrency{
		{Max: 10, Queue: 5, TTL: time.Minute, Latency: time.Second},
		{Max: 2, Queue: 3, TTL: time.Minute, Latency: time.Millisecond},
		{Max: 100, TTL: time.Minute},
	}},
}

func TestLeasesAsInMemory(t *testing.T) {
	t.Parallel()
	client := adapters.Rueidis.Dial(t, adapters.ToSocket(redistest.Start(t)))
	for i, walk := range leaseWalks {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			for seed := range uint64(4) {
				w := newTwins(t, client, seed, unhurried(seed)...)
				for _, v := range walk.versions {
					w.versions = append(w.versions, sluice.MustLimit("leases", v))
				}
				w.unit, w.period = walk.unit.Microseconds(), max(walk.versions[0].TTL, 10*walk.unit).Microseconds()
				w.walk(redistest.Times(t, 80))
			}
		})
	}
}

// TestManyLeases: more leases than are read at once.
func TestManyLeases(t *testing.T) {
	t.Parallel()
	client := adapters.Rueidis.Dial(t, adapters.ToSocket(redistest.Start(t)))
	for seed := range uint64(2) {
		w := newTwins(t, client, seed, unhurried(seed)...)
		w.versions = []*sluice.Limit{sluice.MustLimit("leases", sluice.Concurrency{Max: 300, Queue: 1000, TTL: time.Hour, Latency: time.Second})}
		w.unit, w.period = 1_000_000, 3_600_000_000
		for range 2 {
			w.fill(900)
			w.walk(redistest.Times(t, 30))
		}
	}
}

// TestLeasesNumberedAnew: arrivals, and a clock that was set back very often, are
// numbered again.
func TestLeasesNumberedAnew(t *testing.T) {
	t.Parallel()
	client := adapters.Rueidis.Dial(t, adapters.ToSocket(redistest.Start(t)))
	for seed := range uint64(4) {
		w := newTwins(t, client, seed, "mostNumber = 34359738368", "mostNumber = 30",
			"mostShift = 2251799813685248", "mostShift = 50000000", "chunk = 200", "chunk = 3")
		w.versions = []*sluice.Limit{sluice.MustLimit("leases", sluice.Concurrency{Max: 20, Queue: 30, TTL: 10 * time.Second, Latency: time.Second})}
		w.unit, w.period = 1_000_000, 10_000_000
		w.walk(redistest.Times(t, 60))
	}
}
