package faults

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// flushLimits are of several algorithms, and give nothing back while the test runs.
var flushLimits = []*sluice.Limit{
	sluice.MustLimit("flush bucket", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 100}),
	sluice.MustLimit("flush queue", sluice.LeakyBucket{Rate: sluice.PerDay(1), Queue: 99, Undelayed: 99}),
	sluice.MustLimit("flush window", sluice.FixedWindow{Rate: sluice.PerDay(100), Opened: true}),
	sluice.MustLimit("flush cells", sluice.SlidingWindow{Rate: sluice.PerDay(100)}),
	sluice.MustLimit("flush counter", sluice.SlidingCounter{Rate: sluice.PerDay(100)}),
	sluice.MustLimit("flush log", sluice.SlidingLog{Rate: sluice.PerDay(100)}),
	sluice.MustLimit("flush leases", sluice.Concurrency{Max: 100, TTL: time.Hour}),
}

// flushRoomy has room for all.
var flushRoomy = sluice.MustLimit("flush roomy", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 1_000_000})

// TestScriptFlush lets the server forget all scripts every 50 ms under load: no call
// fails, and each limit admits exactly what it may.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		s := redistest.Start(t)
		f := &flushed{T: t, store: a.Open(t, adapters.To(s.Addr()), redisstore.Options{})}
		stop, enough := make(chan struct{}), make(chan struct{}) // enough is closed after flushesWanted
		var flushing, callers sync.WaitGroup
		flushes, flushesWanted := 0, redistest.Times(t, 5) // how often the server forgets its scripts
		flushing.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
				case <-stop:
					return
				}
				if _, err := s.Do(redistest.Within(t, redistest.Soon), "SCRIPT", "FLUSH"); err != nil {
					t.Error(err)
				}
				if flushes++; flushes == flushesWanted {
					close(enough)
				}
			}
		})
		for i := range 16 {
			callers.Go(func() {
				// Long enough that callers request more of every limit than it has.
				for n := 0; n < 90 || !closed(enough); n++ {
					f.call(i, n)
				}
			})
		}
		callers.Wait()
		close(stop)
		flushing.Wait()
		for i, l := range flushLimits {
			if n := f.admitted[i].Load(); n != l.Capacity() {
				t.Errorf("%v admitted %d, want %d", l, n, l.Capacity())
			}
		}
		stats, err := s.CommandStats(redistest.Within(t, redistest.Soon))
		if err != nil {
			t.Fatal(err)
		}
		if flushes < flushesWanted || stats["eval"].Calls < int64(flushes) {
			t.Errorf("after %d flushes, %d sources were sent", flushes, stats["eval"].Calls)
		}
		t.Logf("%d calls by digest, %d by source, %d flushes", stats["evalsha"].Calls, stats["eval"].Calls, flushes)
	})
}

// closed reports whether a channel is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// flushed is a store whose server forgets its scripts.
type flushed struct {
	*testing.T
	store    *redisstore.Store
	admitted [16]atomic.Int64 // for each limit
	members  atomic.Uint64
}

var flushKey = sluice.StringKey("k")

// call requests a unit in a single call or in a batch, or ends what was granted at once.
func (f *flushed) call(caller, n int) {
	i := (caller + n) % len(flushLimits)
	l := flushLimits[i]
	ctx := f.Context()
	r := sluice.Request{Limit: l, Key: flushKey, Cost: 1, Member: f.members.Add(1)}
	switch n / len(flushLimits) % 3 {
	case 0:
		d, err := f.store.Decide(ctx, r)
		f.count(i, d, err)
	case 1:
		out := make([]sluice.Decision, 2)
		other := sluice.Request{Limit: flushRoomy, Key: sluice.StringKey(fmt.Sprint("other", caller, n)), Cost: 1}
		err := f.store.DecideAll(ctx, []sluice.Request{r, other}, out)
		f.count(i, out[0], err)
	case 2:
		r.Key = sluice.StringKey(fmt.Sprint("own", caller, n)) // whose budget nobody else counts on
		d, err := f.store.Decide(ctx, r)
		if err != nil || !d.Allowed {
			f.Errorf("a key of its own should be allowed: %+v, %v", d, err)
			return
		}
		f.end(&r, r.Charge(&d), n)
	}
}

func (f *flushed) count(i int, d sluice.Decision, err error) {
	if err != nil {
		f.Error(err)
	} else if d.Allowed {
		f.admitted[i].Add(1)
	}
}

func (f *flushed) end(r *sluice.Request, c sluice.Charge, n int) {
	var err error
	switch ctx := f.Context(); {
	case r.Limit == flushLimits[len(flushLimits)-1]:
		err = f.store.Release(ctx, c, time.Millisecond)
	case n%2 == 0:
		if err = f.store.Cancel(ctx, c); errors.Is(err, sluice.ErrActed) {
			err = nil
		}
	default:
		err = f.store.Settle(ctx, c, 0)
	}
	if err == nil && n%5 == 0 {
		err = f.store.Reset(f.Context(), r.Limit, r.Key)
	}
	if err != nil {
		f.Error(err)
	}
}
