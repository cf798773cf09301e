package hybrid

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/granttest"
	"github.com/sluicehq/sluice/internal/soak"
)

// A rollout gives a limit other numbers, server by server, while clients send requests.
type rollout struct {
	numbers [2]sluice.Algorithm // before and after
	at      []time.Duration     // when each server gets the new numbers
	demand  float64             // requests a second to each server
	length  time.Duration
}

// observed is what a rollout shows.
type observed struct {
	admitted [][]int       // by each server, in each span
	over     int64         // units beyond the bound
	retry    time.Duration // the longest RetryAfter
}

// span is how long the units of a server are counted together.
const span = 500 * time.Millisecond

// distant is a shared store whose calls take a time.
type distant struct{ *granttest.Server }

const distance = 200 * time.Microsecond

func (d distant) Grant(ctx context.Context, holder uint64, claims []driver.Claim, out []driver.Grant) {
	pass(distance / 2)
	d.Server.Grant(ctx, holder, claims, out)
	pass(distance / 2)
}

func (d distant) Decide(ctx context.Context, q sluice.Request) (sluice.Decision, error) {
	pass(distance / 2)
	out, err := d.Server.Decide(ctx, q)
	pass(distance / 2)
	return out, err
}

// play plays the rollout under virtual time.
func (r rollout) play(t *testing.T, hybrid bool) (o observed) {
	t.Helper()
	var limits []*sluice.Limit
	for _, a := range r.numbers {
		l := sluice.MustLimit("l", a)
		if hybrid {
			var err error
			if l, err = l.WithHybrid(sluice.Hybrid{}); err != nil {
				t.Fatal(err)
			}
		}
		limits = append(limits, l)
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		clock := func() int64 { return time.Now().UnixMicro() }
		law := newBound(limits, clock())
		o.over = math.MinInt64
		count := func(units, at int64) {
			mu.Lock()
			defer mu.Unlock()
			o.over = max(o.over, law.admit(units, at))
		}
		server := distant{granttest.New(granttest.Options{Clock: clock, Charged: func(c sluice.Charge, at int64) { count(c.Cost, at) }})}
		began := time.Now()
		var all sync.WaitGroup
		var stores []*Store
		for range r.at {
			o.admitted = append(o.admitted, make([]int, r.length/span))
		}
		for i, reload := range r.at {
			store, err := New(server, Options{Holder: uint64(i + 1), Seed: uint64(i + 1), Wall: func() int64 { return time.Now().UnixNano() }})
			if err != nil {
				t.Fatal(err)
			}
			stores = append(stores, store)
			chance := rand.New(rand.NewPCG(1, uint64(i)))
			decided := func(d sluice.Decision) {
				if d.Allowed && local(d.Receipt) {
					count(1, clock())
				}
				mu.Lock()
				defer mu.Unlock()
				if n := int(time.Since(began) / span); !d.Allowed {
					o.retry = max(o.retry, d.RetryAfter)
				} else if n < len(o.admitted[i]) {
					o.admitted[i][n]++
				}
			}
			request := func(q sluice.Request) {
				d, ok := store.DecideLocally(q)
				if ok {
					decided(d)
					return
				}
				all.Go(func() {
					d, err := store.Decide(context.Background(), q)
					if err != nil {
						t.Error(err)
					}
					decided(d)
				})
			}
			all.Go(func() {
				for time.Since(began) < r.length {
					pass(time.Duration(chance.ExpFloat64() / r.demand * float64(time.Second)))
					q := sluice.Request{Limit: limits[0], Key: sluice.StringKey("key"), Cost: 1}
					if time.Since(began) >= reload {
						q.Limit = limits[1]
					}
					request(q)
				}
			})
		}
		all.Wait()
		for _, s := range stores {
			s.Close()
		}
	})
	return o
}

// TestRolloutsKeepTheBoundOfBothNumbers gives limits numbers that are 40 times smaller, and larger, in one server, seconds later in another one, and
// never in a third one. Each server admits about as much as with exact limits: at least a part of it, except for
// a tenth of the spans. All together stay within the bound of both numbers. The units that servers hold with the larger
// numbers once were more than the whole capacity of the smaller ones, which admitted nothing until all servers had
// the same numbers.
func TestRolloutsKeepTheBoundOfBothNumbers(t *testing.T) {
	second := sluice.PerSecond
	bucket := [2]sluice.Algorithm{sluice.TokenBucket{Rate: second(4000)}, sluice.TokenBucket{Rate: second(100)}}
	// By day, some algorithms have a turn, and only buckets and windows also get larger numbers.
	long := soak.Times(t, 1) > 1
	day := []string{"bucket", "burst", "window", "period", "log"}
	for name, numbers := range map[string][2]sluice.Algorithm{
		"bucket": bucket,
		"burst":  {bucket[0], sluice.TokenBucket{Rate: second(4000), Burst: 100}},
		"rate":   {sluice.TokenBucket{Rate: second(4000), Burst: 1000}, sluice.TokenBucket{Rate: second(100), Burst: 1000}},
		"across": {sluice.TokenBucket{Rate: second(4000), Burst: 100}, sluice.TokenBucket{Rate: second(100), Burst: 4000}},
		"window": {sluice.FixedWindow{Rate: second(4000)}, sluice.FixedWindow{Rate: second(100)}},
		"opened": {sluice.FixedWindow{Rate: second(4000), Opened: true}, sluice.FixedWindow{Rate: second(100), Opened: true}},
		"period": {sluice.FixedWindow{Rate: second(4000)}, sluice.FixedWindow{Rate: sluice.Per(400, 4*time.Second)}},
		"cells":  {sluice.SlidingWindow{Rate: second(4000), Cells: 10}, sluice.SlidingWindow{Rate: second(100), Cells: 10}},
		"log":    {sluice.SlidingLog{Rate: second(4000)}, sluice.SlidingLog{Rate: second(100)}},
		"count":  {sluice.SlidingCounter{Rate: second(4000)}, sluice.SlidingCounter{Rate: second(100)}},
	} {
		for _, raised := range []bool{false, true} {
			if !long && (raised && name != "bucket" && name != "window" || !slices.Contains(day, name)) {
				continue
			}
			r := rollout{numbers, []time.Duration{time.Second, 3 * time.Second, time.Hour}, 300, 4 * time.Second}
			if name == "bucket" {
				r.demand = 700
			}
			if raised {
				slices.Reverse(r.numbers[:])
			}
			t.Run(fmt.Sprint(name, " raised ", raised), func(t *testing.T) { r.hold(t) })
		}
	}
}

// hold compares a rollout of hybrid limits with the same one of exact limits.
func (r rollout) hold(t *testing.T) {
	t.Helper()
	want, got := r.play(t, false), r.play(t, true)
	few, spans := 0, 0
	for i := range got.admitted {
		t.Logf("server %d, exact  %v", i, want.admitted[i])
		t.Logf("server %d, hybrid %v", i, got.admitted[i])
		for n, units := range got.admitted[i] {
			spans++
			if units < want.admitted[i][n]/2-15 {
				few++
			}
		}
	}
	if few > spans/10 {
		t.Errorf("in %d of %d spans, a server admits less than half of what it admits with exact limits", few, spans)
	}
	if got.over > 0 {
		t.Errorf("the bound is exceeded by %d units", got.over)
	}
	slack := time.Duration(longestDenial)
	if a, b := sluice.MustLimit("l", r.numbers[0]).Rate().Period(), sluice.MustLimit("l", r.numbers[1]).Rate().Period(); a != b {
		slack = max(a, b) // units in escrow count until the end of the window
	}
	if got.retry > want.retry+slack {
		t.Errorf("a denial says %v, and at most %v with exact limits", got.retry, want.retry)
	}
}
