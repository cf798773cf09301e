package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/internal/granttest"
)

// crowd runs loads of these rates over one bank for a time each, and returns them.
type crowd struct {
	bank  *bank
	loads []*load
}

func newCrowd(t *testing.T, limit *sluice.Limit, trip time.Duration, rates ...int) *crowd {
	t.Helper()
	c := &crowd{bank: newBank(t)}
	c.bank.fault = delayed(trip)
	for i, rate := range rates {
		s := open(t, c.bank, hybrid.Options{Holder: uint64(i + 1), Seed: uint64(i + 1)})
		c.loads = append(c.loads, &load{store: s, limit: limit, rate: rate})
	}
	return c
}

// run lets the loads run, and counts from zero.
func (c *crowd) run(t *testing.T, length time.Duration, loads ...*load) {
	t.Helper()
	if loads == nil {
		loads = c.loads
	}
	var all sync.WaitGroup
	for _, l := range loads {
		l.requests, l.allowed = 0, 0
		all.Go(func() { l.run(t, time.Now().Add(length)) })
	}
	all.Wait()
}

// Limits whose grants would be too small are decided exactly, and give all they have.
func TestLowLimitsAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rates := []int{100, 100, 100, 100, 100, 100, 100, 100}
		limit := bucket(100, 100, sluice.Hybrid{})
		c := newCrowd(t, limit, 200*time.Microsecond, rates...)
		c.run(t, 10*time.Second)
		sum := 0
		for _, l := range c.loads {
			sum += l.allowed
		}
		if sum < 1100*99/100 || sum > 1101 {
			t.Errorf("%d of 1100 units", sum)
		}
		t.Logf("%d units, %d claims, %d exact decisions", sum, c.bank.claims, c.bank.decides)
	})
}

// At twice the limit, all units are admitted by eight processes, and few calls are made.
func TestAllUnitsAreAdmittedUnderOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rates := []int{5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000}
		c := newCrowd(t, bucket(20_000, 20_000, sluice.Hybrid{}), 200*time.Microsecond, rates...)
		c.run(t, 3*time.Second)
		sum, requests := 0, 0
		for _, l := range c.loads {
			sum += l.allowed
			requests += l.requests
		}
		calls := c.bank.calls + c.bank.decides
		t.Logf("%d of %d units, %d requests, %d calls", sum, 80_000, requests, calls)
		if sum < 80_000*97/100 || sum > 80_000+4 {
			t.Errorf("%d of 80,000 units", sum)
		}
		if calls > requests/50 {
			t.Errorf("%d calls for %d requests", calls, requests)
		}
	})
}

// A process that goes idle gives up its share within two synchronisations, and a process that wakes
// up has its first request decided at once.
func TestSharesMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, bucket(2000, 2000, sluice.Hybrid{}), 200*time.Microsecond, 2000, 2000, 2000)
		c.run(t, 3*time.Second)
		c.run(t, 2*period, c.loads[:2]...)
		c.run(t, time.Second, c.loads[:2]...)
		for i, l := range c.loads[:2] {
			if l.share() < 0.45 {
				t.Errorf("process %d gets %.2f of its requests, want half", i, l.share())
			}
		}
		var all sync.WaitGroup
		for _, l := range c.loads[:2] {
			all.Go(func() { l.run(t, time.Now().Add(time.Second)) })
		}
		pass(500 * ms)
		for range 3 {
			if d := take(t, c.loads[2].store, c.loads[2].limit, 1); !d.Allowed {
				t.Errorf("the first request of a process that wakes up: %+v", d)
			}
			pass(150 * ms)
		}
		all.Wait()
	})
}

// A local decision does not allocate, over a guard neither.
func TestLocalDecisionsDoNotAllocate(t *testing.T) {
	names, stores, r := subjects(t)
	ctx := context.Background()
	for i, s := range stores {
		if names[i] == "memory" {
			continue // its own tests measure it
		}
		if n := testing.AllocsPerRun(1000, func() { _, _ = s.Decide(ctx, r) }); n != 0 {
			t.Errorf("%s: %v allocations for a decision", names[i], n)
		}
		rs, out := []sluice.Request{r, r}, make([]sluice.Decision, 2)
		if n := testing.AllocsPerRun(1000, func() { _ = s.DecideAll(ctx, rs, out) }); n != 0 {
			t.Errorf("%s: %v allocations for a batch", names[i], n)
		}
	}
}

// A guard makes local decisions while its breaker is open.
func TestGuardDecidesLocally(t *testing.T) {
	onStage(t, bucket(10_000, 100_000, sluice.Hybrid{Sync: 500 * ms}), func(s *stage) {
		g, err := guard.New(guard.Options{Store: s.store, Default: sluice.FallbackDeny})
		if err != nil {
			t.Fatal(err)
		}
		s.warm()
		s.set(hang)
		s.bank.broken = errors.New("bank: connection refused")
		for range 20 {
			_, _ = g.Decide(context.Background(), sluice.Request{Limit: s.limit, Key: key, Cost: 50_000})
		}
		if g.State() != guard.StateOpen {
			t.Fatalf("the breaker is %v", g.State())
		}
		if d, err := g.Decide(context.Background(), sluice.Request{Limit: s.limit, Key: key, Cost: 1}); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("the breaker is open, but a local decision should still be allowed: %+v, %v", d, err)
		}
	})
}

// remote is a shared store whose calls take a time, and which counts exact decisions.
type remote struct {
	*granttest.Server
	trip    time.Duration
	decides atomic.Int64
}

func (r *remote) Grant(ctx context.Context, holder uint64, claims []driver.Claim, out []driver.Grant) {
	pass(r.trip / 2)
	r.Server.Grant(ctx, holder, claims, out)
	pass(r.trip / 2)
}

func (r *remote) Decide(ctx context.Context, q sluice.Request) (sluice.Decision, error) {
	r.decides.Add(1)
	pass(r.trip / 2)
	d, err := r.Server.Decide(ctx, q)
	pass(r.trip / 2)
	return d, err
}

// Beside processes that decide exactly, each process gets about the same share of what it requests. When the exact ones have
// gone, the processes decide on granted units again.
func TestExactProcessesShare(t *testing.T) {
	for name, algorithm := range map[string]sluice.Algorithm{
		"bucket": sluice.TokenBucket{Rate: sluice.PerSecond(1000)}, "log": sluice.SlidingLog{Rate: sluice.PerSecond(500)},
	} {
		for _, rates := range [][]int{{300, 300, 300, 300, 300, 300}, {100, 100, 800, 800, 100, 100}} {
			t.Run(fmt.Sprint(name, rates), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { exactProcessesShare(t, algorithm, rates) })
			})
		}
	}
}

// exactProcessesShare lets the second half of some loads be exact.
func exactProcessesShare(t *testing.T, algorithm sluice.Algorithm, rates []int) {
	t.Helper()
	exact := sluice.MustLimit("l", algorithm)
	limit, err := exact.WithHybrid(sluice.Hybrid{})
	if err != nil {
		t.Fatal(err)
	}
	store := &remote{Server: granttest.New(granttest.Options{Clock: func() int64 { return time.Now().UnixMicro() }}), trip: 200 * time.Microsecond}
	c := &crowd{}
	for i, rate := range rates {
		l := &load{store: open(t, store, hybrid.Options{Holder: uint64(i + 1), Seed: uint64(i + 1)}), limit: limit, rate: rate}
		l.chance = rand.New(rand.NewPCG(1, uint64(i)))
		if i >= len(rates)/2 {
			l.limit = exact
		}
		c.loads = append(c.loads, l)
	}
	c.run(t, 2*time.Second)
	c.run(t, 3*time.Second)
	got, all := 0, 0
	for _, l := range c.loads {
		got, all = got+l.allowed, all+l.requests
	}
	fair := float64(got) / float64(all)
	for i, l := range c.loads {
		t.Logf("process %d gets %.3f of its requests", i, l.share())
		if l.share() < 0.8*fair || l.share() > 1.25*fair {
			t.Errorf("process %d gets %.3f of its requests, and all together %.3f", i, l.share(), fair)
		}
	}
	hybrids := c.loads[:len(rates)/2]
	c.run(t, 2*time.Second, hybrids...)
	before, requests := store.decides.Load(), 0
	c.run(t, time.Second, hybrids...)
	for _, l := range hybrids {
		requests += l.requests
	}
	if exactly := store.decides.Load() - before; exactly > int64(requests/10) {
		t.Errorf("%d of %d requests are exact after the others have gone", exactly, requests)
	}
}

// Callers that send the next request soon after each answer, a denial too, get the same part of it from a process with
// grants and from an exact one: of all requests to a bucket, and of a window's requests while it has units. A process
// with grants answers the callers of a window sooner, so they send more meanwhile. A process once denied
// by a denial that it kept while the exact ones repeated their requests, and got a hundredth of a bucket.
func TestExactProcessesShareWithHaste(t *testing.T) {
	for name, algorithm := range map[string]sluice.Algorithm{
		"bucket": sluice.TokenBucket{Rate: sluice.Per(600, 2*time.Second)}, "window": sluice.FixedWindow{Rate: sluice.Per(600, 2*time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hastyCallersShare(t, algorithm) })
		})
	}
}

func hastyCallersShare(t *testing.T, algorithm sluice.Algorithm) {
	t.Helper()
	const processes, callers, warm, length = 4, 4, time.Second, 3 * time.Second
	exact := sluice.MustLimit("l", algorithm)
	limit, err := exact.WithHybrid(sluice.Hybrid{})
	if err != nil {
		t.Fatal(err)
	}
	store := &remote{Server: granttest.New(granttest.Options{Clock: func() int64 { return time.Now().UnixMicro() }}), trip: 400 * time.Microsecond}
	var mu sync.Mutex
	var all sync.WaitGroup
	var lately, requests, allowed [2]int // of processes with grants, and exact ones; lately: since the last one was allowed
	window := int64(0)
	began := time.Now()
	count := func(kind int, d sluice.Decision) {
		mu.Lock()
		defer mu.Unlock()
		if n := time.Now().UnixMicro() / (2 * time.Second).Microseconds(); n != window {
			window, lately = n, [2]int{}
		}
		lately[kind]++
		if d.Allowed && time.Since(began) > warm {
			allowed[kind]++
			for i := range lately {
				requests[i] += lately[i]
			}
			lately = [2]int{}
		}
	}
	for i := range processes {
		s, l, kind := open(t, store, hybrid.Options{Holder: uint64(i + 1), Seed: uint64(i + 1)}), limit, 0
		if i >= processes/2 {
			l, kind = exact, 1
		}
		for j := range callers {
			chance := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			all.Go(func() {
				for time.Since(began) < warm+length {
					d, err := s.Decide(context.Background(), sluice.Request{Limit: l, Key: key, Cost: 1})
					if err != nil {
						t.Error(err)
						return
					}
					count(kind, d)
					pass(time.Duration((0.5 + chance.Float64()) * float64(time.Millisecond)))
				}
			})
		}
	}
	all.Wait()
	pass(time.Second)
	share := [2]float64{}
	for i := range share {
		share[i] = float64(allowed[i]) / float64(requests[i])
	}
	t.Logf("with grants %d of %d requests, exact %d of %d", allowed[0], requests[0], allowed[1], requests[1])
	if share[0] < 0.75*share[1] || share[1] < 0.75*share[0] {
		t.Errorf("processes with grants get %.3f of the requests, and exact ones %.3f", share[0], share[1])
	}
}
