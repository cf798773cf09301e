package bandwidth_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
)

// paces are rates, and the size of what moves at once.
var paces = []struct {
	rate sluice.Rate
	size int
}{
	{sluice.PerSecond(1000), 32 << 10},
	{sluice.PerMinute(3 * mB), 1},
	{sluice.PerSecond(1_234_567), 32 << 10},
	{sluice.PerSecond(1 * mB), 100},
	{sluice.PerSecond(1 * mB), 32 << 10},
	{sluice.PerSecond(1 * mB), 1 << 20},
	{sluice.PerSecond(100 * mB), 32 << 10},
	{sluice.PerSecond(1 * gB), 32 << 10},
	{sluice.PerSecond(1 * gB), 64 << 20},
	{sluice.PerDay(1 << 40), 4096},
}

// TestRateExactly moves bytes for 5 s of a clock that never makes anybody late: the
// flow gives all of its rate, and in no interval more than its burst beyond it.
func TestRateExactly(t *testing.T) {
	const span = 5 * time.Second
	for name, make := range movers {
		for _, c := range paces {
			t.Run(fmt.Sprintf("%s/%v/%d", name, c.rate, c.size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := limiter(t, bandwidth.Options{Rate: c.rate})
					move, seen := make(t.Context(), c.size, l.Flow(key)), newTrace()
					if name == "Writer" {
						// A large write is many: each is seen when it comes.
						w := bandwidth.NewWriter(t.Context(), seen, l.Flow(key))
						p := buffer(c.size)
						move = func() (int, error) { return w.Write(p) }
					}
					for time.Since(seen.began) < span {
						n, err := move()
						if err != nil {
							t.Fatal(err)
						}
						if name != "Writer" {
							seen.add(n)
						}
					}
					capacity := float64(l.Limit().Capacity())
					if most := in(c.rate, bandwidth.BurstTime); capacity > max(1, most) {
						t.Errorf("the bucket holds %v bytes, more than %v", capacity, most)
					}
					slack := 1.0 // a rounded microsecond, and what one ReadFrom does at once
					if name == "ReadFrom" {
						slack += float64(c.size)
					} else if most := seen.burst(c.rate); most > capacity+in(c.rate, time.Microsecond)+1 {
						t.Errorf("some interval saw %.1f bytes beyond the rate; the bucket holds %v", most, capacity)
					}
					want := in(c.rate, time.Since(seen.began))
					if got := float64(seen.sum); got < want-slack-float64(c.size) || got > want+capacity+slack {
						t.Errorf("%v: %.0f bytes; the rate gives %.0f, and the bucket %.0f", time.Since(seen.began), got, want, capacity)
					}
				})
			})
		}
	}
}

// TestLateConnectionsCatchUpWithinABound holds a connection up at random: it makes up for it, and even so it moves
// no more than 50 ms of the rate beyond the rate in any interval.
func TestLateConnectionsCatchUpWithinABound(t *testing.T) {
	const most = bandwidth.BurstTime + bandwidth.ChunkTime
	for _, c := range paces {
		t.Run(fmt.Sprintf("%v/%d", c.rate, c.size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter(t, bandwidth.Options{Rate: c.rate})
				seen := newTrace()
				held := &lateWriter{trace: seen, least: most}
				w, p := bandwidth.NewWriter(t.Context(), held, l.Flow(key)), buffer(c.size)
				for time.Since(seen.began) < 10*time.Second {
					if _, err := w.Write(p); err != nil {
						t.Fatal(err)
					}
				}
				if got, bound := seen.burst(c.rate), max(2, in(c.rate, most)); got > bound+in(c.rate, time.Microsecond)+1 {
					t.Errorf("some interval saw %.1f bytes beyond the rate, more than %.1f", got, bound)
				}
			})
		})
	}
}

// lateWriter is held up for a while before every 7th write.
type lateWriter struct {
	*trace
	writes int
	least  time.Duration
}

func (w *lateWriter) Write(p []byte) (int, error) {
	if w.writes++; w.writes%7 == 0 {
		<-time.After(w.least * time.Duration(w.writes%5) / 2)
	}
	return w.trace.Write(p)
}

// TestConnectionsShareTheRateFairly lets connections of one key share it: each gets as much, whatever the sizes
// of its writes, and all together the rate.
func TestConnectionsShareTheRateFairly(t *testing.T) {
	rate := sluice.PerSecond(10 * mB)
	for _, sizes := range [][]int{{32 << 10, 32 << 10}, {100, 1 << 20}, {50, 4096, 32 << 10, 1 << 20, 77}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter(t, bandwidth.Options{Rate: rate})
				f := l.Flow(key)
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				seen := make([]*trace, len(sizes))
				done := make(chan error)
				for i, size := range sizes {
					seen[i] = newTrace()
					w := bandwidth.NewWriter(ctx, seen[i], f)
					go func() {
						p := buffer(size)
						for ctx.Err() == nil {
							_, _ = w.Write(p)
						}
						done <- w.Close()
					}()
				}
				<-time.After(5 * time.Second)
				cancel()
				for range sizes {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				sum, share := 0.0, in(rate, time.Since(began))/float64(len(sizes))
				// The first connection has what the bucket held, and any connection may have the last turn.
				first, turn := float64(l.Limit().Capacity()), 2*in(rate, bandwidth.ChunkTime)
				for i, s := range seen {
					sum += float64(s.sum)
					if got := float64(s.sum); got < share-turn || got > share+first+turn {
						t.Errorf("writes of %d: %.0f bytes, where a share is %.0f", sizes[i], got, share)
					}
				}
				if want := in(rate, time.Since(began)); sum < 0.99*want || sum > 1.01*want {
					t.Errorf("%.0f bytes together; the rate gives %.0f", sum, want)
				}
			})
		})
	}
}

// TestBurstOfMany lets twenty connections begin at once: together they move in no interval
// more than the burst of the key beyond its rate.
func TestBurstOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := sluice.PerSecond(10 * mB)
		l := limiter(t, bandwidth.Options{Rate: rate})
		ctx, cancel := context.WithCancel(t.Context())
		seen := &sharedTrace{trace: newTrace()}
		done := make(chan error)
		for i := range 20 {
			w := bandwidth.NewWriter(ctx, seen, l.Flow(key))
			go func() {
				p := buffer(100 << (i % 10))
				for ctx.Err() == nil {
					_, _ = w.Write(p)
				}
				done <- w.Close()
			}()
		}
		<-time.After(5 * time.Second)
		cancel()
		for range 20 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if got, most := seen.burst(rate), in(rate, bandwidth.BurstTime+time.Microsecond)+1; got > most {
			t.Errorf("some interval saw %.0f bytes beyond the rate, more than %.0f", got, most)
		}
		if got, want := float64(seen.sum), in(rate, 5*time.Second); got < want-20*in(rate, bandwidth.ChunkTime) || got > want+in(rate, bandwidth.BurstTime) {
			t.Errorf("%.0f bytes; the rate gives %.0f", got, want)
		}
	})
}

// sharedTrace is a trace for several connections.
type sharedTrace struct {
	mu sync.Mutex
	*trace
}

func (s *sharedTrace) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trace.Write(p)
}

// TestKeysHaveRatesOfTheirOwn lets connections of two keys each have the rate.
func TestKeysHaveRatesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := sluice.PerSecond(1 * mB)
		l := limiter(t, bandwidth.Options{Rate: rate})
		began := time.Now()
		done := make(chan error)
		for _, name := range []string{"one", "another"} {
			w := bandwidth.NewWriter(t.Context(), newTrace(), l.Flow(sluice.StringKey(name)))
			go func() {
				_, err := w.Write(buffer(2 * mB))
				done <- err
			}()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took, want := time.Since(began), 2*time.Second-bandwidth.BurstTime; took != want {
			t.Errorf("2 MB of each took %v, not %v", took, want)
		}
	})
}

// TestSeveralFlows holds one connection to two flows: the tighter rate counts, and
// both are paid.
func TestSeveralFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: store(t), taken: make(map[string]int64)}
		tight := limiter(t, bandwidth.Options{Store: s, Name: "tight", Rate: sluice.PerSecond(1 * mB)})
		wide := limiter(t, bandwidth.Options{Store: s, Name: "wide", Rate: sluice.PerSecond(10 * mB)})
		for name, make := range movers {
			k := sluice.StringKey(name)
			seen := newTrace()
			move := make(t.Context(), 4096, wide.Flow(k), bandwidth.Flow{}, tight.Flow(k))
			for time.Since(seen.began) < time.Second {
				n, err := move()
				if err != nil {
					t.Fatal(err)
				}
				seen.add(n)
			}
			want := in(tight.Rate(), time.Since(seen.began)) + float64(tight.Limit().Capacity())
			if got := float64(seen.sum); got > want || got < want-2*4096-float64(tight.Limit().Capacity()) {
				t.Errorf("%s: %.0f bytes, not %.0f", name, got, want)
			}
			for _, l := range []*bandwidth.Limiter{tight, wide} {
				if got := float64(s.taken[l.Limit().Name()]); got < float64(seen.sum) || got > float64(seen.sum)+in(l.Rate(), bandwidth.ChunkTime) {
					t.Errorf("%s: %.0f bytes of %q were paid, and %d moved", name, got, l.Limit().Name(), seen.sum)
				}
			}
			clear(s.taken)
		}
	})
}

// counting counts what is taken of each limit and not given back.
type counting struct {
	sluice.Store
	taken map[string]int64
}

func (s *counting) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	d, err := s.Store.Decide(ctx, r)
	if err == nil && d.Allowed {
		s.taken[r.Limit.Name()] += r.Cost
	}
	return d, err
}

func (s *counting) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	s.taken[c.Limit.Name()] -= c.Cost - actual
	return s.Store.Settle(ctx, c, actual)
}

// TestUnboundedBytesPassAtOnce moves bytes that nothing bounds.
func TestUnboundedBytesPassAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, make := range movers {
			began := time.Now()
			if n, err := make(t.Context(), 1<<20, bandwidth.Flow{})(); n != 1<<20 || err != nil {
				t.Errorf("%s: moved %d bytes without a limit: %v", name, n, err)
			}
			if d := time.Since(began); d != 0 {
				t.Errorf("%s: took %v", name, d)
			}
		}
	})
}

var zeros = make([]byte, 64<<20)

// buffer returns bytes that nobody changes.
func buffer(size int) []byte { return zeros[:size] }
