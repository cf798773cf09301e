package faults

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// The limits of a load, by their fallbacks. None runs out in the store:
// a denial writes nothing, and would succeed where writes fail.
var (
	loadAllow = sluice.MustLimit("load allow", sluice.TokenBucket{Rate: sluice.PerDay(1000), Burst: 1_000_000})
	loadDeny  = sluice.MustLimit("load deny", sluice.SlidingWindow{Rate: sluice.PerDay(1_000_000)})
	loadLocal = sluice.MustLimit("load local", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: loadStored})
	loadBatch = sluice.MustLimit("load batch", sluice.FixedWindow{Rate: sluice.PerDay(1_000_000)})
)

const (
	loadRate   = 2200    // decisions a second
	loadStored = 100_000 // units of loadLocal in the store
	loadShared = 100     // and in the local store
	loadKeys   = 500     // for the limits that have several
)

// loadShare is the share of the local store.
var loadShare = sluice.Share{Of: loadShared, Parts: loadStored}

func loadFallback(l *sluice.Limit) sluice.Fallback {
	switch l {
	case loadAllow:
		return sluice.FallbackAllow
	case loadDeny:
		return sluice.FallbackDeny
	default:
		return sluice.FallbackLocal
	}
}

// The kinds of calls of a load, in turn.
const (
	callAllow = iota
	callDeny
	callLocal // one key, so that the local share runs out
	callBatch // a key in loadAllow and loadBatch
	callKinds
)

// An answer is the result of one call of a load.
type answer struct {
	kind     int
	at, took time.Duration // since the load began; the time of the call
	first    sluice.Decision
	second   sluice.Decision // for a batch
	err      error
}

// end is when the answer came.
func (a *answer) end() time.Duration { return a.at + a.took }

// A volley calls a store at a rate, whatever becomes of the calls: each has a goroutine of
// its own.
type volley struct {
	store   sluice.Store
	began   time.Time
	answers []answer
	count   atomic.Int64
	timers  []time.Duration // how much too late timers of a deadline fired
	timed   atomic.Int64
	deepest int // goroutines
	stop    chan struct{}
	stopped chan struct{}
}

// startVolley begins one of so long at most.
func startVolley(store sluice.Store, longest time.Duration) *volley {
	most := int(float64(loadRate)*longest.Seconds()) + 1
	l := &volley{
		store: store, began: time.Now(),
		answers: make([]answer, most), timers: make([]time.Duration, most/controlEach+1),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go l.run()
	return l
}

// controlEach is after how many calls a timer is set that does nothing but fire at
// the time of a deadline: what the scheduler adds to that, it adds to answers.
const controlEach = 4

func (l *volley) run() {
	defer close(l.stopped)
	var calls sync.WaitGroup
	defer calls.Wait()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.stop:
			return
		}
		l.deepest = max(l.deepest, runtime.NumGoroutine())
		due := int64(time.Since(l.began).Seconds() * loadRate)
		for i := l.count.Load(); i < due; i = l.count.Add(1) {
			if int(i) == len(l.answers) {
				return
			}
			calls.Go(func() { l.call(int(i)) })
			if i%controlEach == 0 {
				calls.Go(l.control)
			}
		}
	}
}

// call makes one call.
func (l *volley) call(i int) {
	a := &l.answers[i]
	a.kind = i % callKinds
	key := sluice.StringKey(fmt.Sprint("key ", i/callKinds%loadKeys))
	ctx := context.Background()
	began := time.Now()
	switch a.kind {
	case callAllow:
		a.first, a.err = l.store.Decide(ctx, sluice.Request{Limit: loadAllow, Key: key, Cost: 1})
	case callDeny:
		a.first, a.err = l.store.Decide(ctx, sluice.Request{Limit: loadDeny, Key: key, Cost: 1})
	case callLocal:
		a.first, a.err = l.store.Decide(ctx, sluice.Request{Limit: loadLocal, Key: sluice.StringKey("hot"), Cost: 1})
	case callBatch:
		var out [2]sluice.Decision
		a.err = l.store.DecideAll(ctx, []sluice.Request{
			{Limit: loadAllow, Key: key, Cost: 1}, {Limit: loadBatch, Key: key, Cost: 1},
		}, out[:])
		a.first, a.second = out[0], out[1]
	}
	a.at, a.took = began.Sub(l.began), time.Since(began)
}

// control waits for the time of a deadline.
func (l *volley) control() {
	began := time.Now()
	<-time.After(loadDeadline)
	l.timers[l.timed.Add(1)-1] = time.Since(began) - loadDeadline
}

const loadDeadline = 50 * time.Millisecond

// since is the time since the load began.
func (l *volley) since() time.Duration { return time.Since(l.began) }

// await returns when so many calls more have begun as begin in a time.
func (l *volley) await(t *testing.T, d time.Duration) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for due := l.count.Load() + int64(d.Seconds()*loadRate); l.count.Load() < due; {
		select {
		case <-tick.C:
		case <-l.stopped:
			t.Fatal("the load has ended")
		}
	}
}

// end stops the load, and returns the answers when all calls have returned.
func (l *volley) end(t *testing.T) []answer {
	t.Helper()
	close(l.stop)
	select {
	case <-l.stopped:
	case <-time.After(30 * time.Second):
		t.Fatal("calls hang")
	}
	return l.answers[:l.count.Load()]
}

// scheduler returns the longest that a timer of the load was late.
func (l *volley) scheduler() time.Duration { return slices.Max(l.timers[:max(1, l.timed.Load())]) }

// quantile returns the time that a share q of the answers did not exceed.
func quantile(answers []answer, q float64) time.Duration {
	took := make([]time.Duration, len(answers))
	for i := range answers {
		took[i] = answers[i].took
	}
	slices.Sort(took)
	return took[max(0, int(math.Ceil(q*float64(len(took))))-1)]
}
