package storetest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// goroutines is the number of concurrent callers.
const goroutines = 64

// parallel runs f in n goroutines and waits for them. It reports a deadlock if they take minutes.
func (s *subject) parallel(n int, f func(i int)) {
	s.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	patience := time.NewTimer(4 * time.Minute)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		s.Fatal("the goroutines do not end: a deadlock")
	}
}

// exact: while the clock does not move, many concurrent callers get exactly the limit's units.
func exact(s *subject) {
	const units = 1000
	for _, c := range []struct {
		name      string
		algorithm sluice.Algorithm
		share     int // share of the attempts
	}{
		{"token_bucket", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: units}, 1},
		{"leaky_bucket", sluice.LeakyBucket{Rate: sluice.PerDay(1), Queue: units - 1, Undelayed: units - 1}, 20},
		{"fixed_window", sluice.FixedWindow{Rate: sluice.PerDay(units)}, 20},
		{"sliding_window", sluice.SlidingWindow{Rate: sluice.PerDay(units)}, 20},
		{"sliding_counter", sluice.SlidingCounter{Rate: sluice.PerDay(units)}, 20},
		{"sliding_log", sluice.SlidingLog{Rate: sluice.PerDay(units)}, 20},
		{"sliding_log_count_denied", sluice.SlidingLog{Rate: sluice.PerDay(units), CountDenied: true}, 20},
		{"concurrency", sluice.Concurrency{Max: units, TTL: time.Hour}, 40},
	} {
		s.Run(c.name, func(t *testing.T) {
			s := s.suite.subject(t)
			l := limit("exact", c.algorithm)
			attempts := max(s.suite.attempts/c.share, 20)
			var admitted, failed atomic.Int64
			s.parallel(goroutines, func(int) {
				for range attempts {
					d, err := s.store.Decide(context.Background(), s.complete(sluice.Request{Limit: l, Key: key, Cost: 1}))
					switch {
					case err != nil:
						failed.Add(1)
					case d.Allowed:
						admitted.Add(1)
					}
				}
			})
			if n := admitted.Load(); n != units || failed.Load() > 0 {
				s.Errorf("%d of %d attempts admitted and %d failed, want %d and 0", n, goroutines*attempts, failed.Load(), units)
			}
			s.remaining(l, key, 0, "after all of them")
		})
	}
}

// concurrentBatches: batches over the same keys in opposite orders do not deadlock. They charge
// all or none, and admit exactly the units of the tightest limit.
func concurrentBatches(s *subject) {
	limits := []*sluice.Limit{
		limit("a", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 500}),
		limit("b", sluice.FixedWindow{Rate: sluice.PerDay(400)}),
		limit("c", sluice.SlidingLog{Rate: sluice.PerDay(600)}),
	}
	ks := []sluice.Key{sluice.StringKey("x"), sluice.StringKey("y"), sluice.StringKey("z")}
	attempts := max(s.suite.attempts/100, 20)
	var admitted, other, failed atomic.Int64
	s.parallel(goroutines, func(i int) {
		r := rand.New(rand.NewPCG(uint64(i), 0))
		var rs []sluice.Request
		for _, l := range limits {
			for _, k := range ks {
				rs = append(rs, sluice.Request{Limit: l, Key: k, Cost: 1})
			}
		}
		out := make([]sluice.Decision, len(rs))
		for range attempts {
			r.Shuffle(len(rs), func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
			if err := s.store.DecideAll(context.Background(), rs, out); err != nil {
				failed.Add(1)
				continue
			}
			allowed := true
			for _, d := range out {
				allowed = allowed && d.Allowed
			}
			if allowed {
				admitted.Add(1)
			}
			// In between, take a single unit of one key of the largest limit.
			if r.IntN(50) == 0 {
				if d, err := s.store.Decide(context.Background(), sluice.Request{Limit: limits[2], Key: ks[0], Cost: 1}); err == nil && d.Allowed {
					other.Add(1)
				}
			}
		}
	})
	if failed.Load() > 0 {
		s.Fatalf("%d batches failed", failed.Load())
	}
	if n := admitted.Load(); n > 400 || n+other.Load() < 400 {
		s.Errorf("%d batches admitted, and %d others; want 400 batches", n, other.Load())
	}
	for i, l := range limits {
		for j, k := range ks {
			taken := admitted.Load()
			if i == 2 && j == 0 {
				taken += other.Load()
			}
			s.remaining(l, k, l.Capacity()-taken, "%v, key %d, after all batches", l, j)
		}
	}
}

// concurrentCancel: many callers take units and give them back at one moment. Then all units are
// back, but a queue gives back only its tail.
func concurrentCancel(s *subject) {
	for _, c := range only(func(c sample) bool { return !c.paced && c.limit().Params().Kind != algo.KindLeaky }) {
		s.Run(c.name, func(t *testing.T) {
			s := s.suite.subject(t)
			l := c.limit()
			attempts := max(s.suite.attempts/400, 10)
			var failed atomic.Int64
			s.parallel(goroutines, func(int) {
				for range attempts {
					r := s.complete(sluice.Request{Limit: l, Key: key, Cost: 1})
					d, err := s.store.Decide(context.Background(), r)
					if err == nil && d.Allowed {
						err = s.store.Cancel(context.Background(), r.Charge(&d))
					}
					if err != nil {
						failed.Add(1)
					}
				}
			})
			if failed.Load() > 0 {
				s.Fatalf("%d attempts failed", failed.Load())
			}
			if !c.countsDenied {
				s.remaining(l, key, capacity, "after all has been given back")
			}
		})
	}
}

// concurrentLeases: never more leases are held at once than the limit allows.
func concurrentLeases(s *subject) {
	l := limit("leases", sluice.Concurrency{Max: 7, TTL: time.Hour})
	var held, most, failed atomic.Int64
	attempts := max(s.suite.attempts/100, 20)
	s.parallel(goroutines, func(int) {
		for range attempts {
			r := s.complete(sluice.Request{Limit: l, Key: key, Cost: 1})
			d, err := s.store.Decide(context.Background(), r)
			if err == nil && d.Allowed {
				n := held.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				held.Add(-1)
				err = s.store.Release(context.Background(), r.Charge(&d), time.Millisecond)
			}
			if err != nil {
				failed.Add(1)
			}
		}
	})
	if m := most.Load(); m > 7 || m < 1 || failed.Load() > 0 {
		s.Errorf("%d leases held at once, of 7; %d attempts failed", m, failed.Load())
	}
	s.remaining(l, key, 7, "after all were released")
}

// concurrentSetLimit: while a limit's numbers change, the store admits no more than the largest
// numbers allow, and loses no charge.
func concurrentSetLimit(s *subject) {
	for _, c := range []struct {
		name string
		alg  func(units int64) sluice.Algorithm
		kept bool // a smaller limit in between takes nothing from a larger one
	}{
		{"token_bucket", func(n int64) sluice.Algorithm { return sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: n} }, false},
		{"fixed_window", func(n int64) sluice.Algorithm { return sluice.FixedWindow{Rate: sluice.PerDay(n)} }, true},
		{"sliding_log", func(n int64) sluice.Algorithm { return sluice.SlidingLog{Rate: sluice.PerDay(n)} }, true},
		{"sliding_counter", func(n int64) sluice.Algorithm { return sluice.SlidingCounter{Rate: sluice.PerDay(n)} }, true},
	} {
		s.Run(c.name, func(t *testing.T) {
			s := s.suite.subject(t)
			large, small := limit("set", c.alg(600)), limit("set", c.alg(500))
			lim := sluice.NewLimiter(s.store, large)
			// A bucket that is full under the smaller numbers is full under the larger ones too;
			// taking one unit prevents that.
			s.take(small, key, 1)
			attempts := max(s.suite.attempts/200, 50)
			var admitted, failed atomic.Int64
			s.parallel(goroutines, func(i int) {
				for n := range attempts {
					if i == 0 {
						next := large
						if n%2 == 0 {
							next = small
						}
						if err := lim.SetLimit(next); err != nil {
							failed.Add(1)
						}
						continue
					}
					d, err := lim.Allow(context.Background(), key)
					switch {
					case err != nil:
						failed.Add(1)
					case d.Allowed:
						admitted.Add(1)
					}
				}
			})
			n := admitted.Load() + 1
			for s.take(large, key, 1).Allowed {
				n++
			}
			if n > 600 || c.kept && n != 600 || n < 500 || failed.Load() > 0 {
				s.Errorf("%d units admitted in all, of 600; %d attempts failed", n, failed.Load())
			}
		})
	}
}

// closed: a closed store decides nothing, and returns ErrClosed.
func closed(s *subject) {
	closer, ok := s.store.(io.Closer)
	if !ok {
		return // nothing was promised
	}
	ctx := context.Background()
	l := limit("closed", sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 5})
	leases := limit("leases", sluice.Concurrency{Max: 5})
	charge := s.charge(sluice.Request{Limit: l, Key: key, Cost: 1})
	lease := s.charge(sluice.Request{Limit: leases, Key: key, Cost: 1})
	// Callers that are active when it is closed get a decision or the error.
	var wrong atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for {
				r := sluice.Request{Limit: l, Key: sluice.StringKey(string(rune('a' + i))), Cost: 0}
				_, err := s.store.Decide(ctx, r)
				if errors.Is(err, sluice.ErrClosed) {
					return
				}
				if err != nil {
					wrong.Add(1)
					return
				}
			}
		})
	}
	if err := closer.Close(); err != nil {
		s.Fatalf("closing: %v", err)
	}
	wg.Wait()
	if wrong.Load() > 0 {
		s.Errorf("%d callers got another error than ErrClosed", wrong.Load())
	}
	r := sluice.Request{Limit: l, Key: key, Cost: 1}
	p := r
	p.Peek = true
	_, decide := s.store.Decide(ctx, r)
	_, peek := s.store.Decide(ctx, p)
	for call, err := range map[string]error{
		"Decide":    decide,
		"a peek":    peek,
		"DecideAll": s.store.DecideAll(ctx, []sluice.Request{r, p}, make([]sluice.Decision, 2)),
		"Cancel":    s.store.Cancel(ctx, charge),
		"Settle":    s.store.Settle(ctx, charge, 0),
		"Release":   s.store.Release(ctx, lease, 0),
		"Reset":     s.store.Reset(ctx, l, key),
	} {
		if !errors.Is(err, sluice.ErrClosed) {
			s.Errorf("%s of a closed store: got %v, want ErrClosed", call, err)
		}
	}
}
