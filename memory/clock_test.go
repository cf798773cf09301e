package memory

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// TestClockFollowsForwardOnly: a wall clock that is ahead moves the time; one that is behind, or
// ahead by little, does not.
func TestClockFollowsForwardOnly(t *testing.T) {
	var c clock
	c.init()
	wall := time.Now().UnixMicro()
	if now := c.now(); now < wall-micros(time.Minute) || now > wall+micros(time.Minute) {
		t.Fatalf("the clock begins at %d; the time is %d", now, wall)
	}
	for _, step := range []struct {
		ahead time.Duration
		moves bool
	}{
		{-time.Hour, false},
		{0, false},
		{tolerance * time.Microsecond, false},
		{time.Hour, true},
		{-24 * time.Hour, false},
		{time.Second, true},
	} {
		now := c.now()
		anchor, elapsed := c.anchor.Load(), c.elapsed(time.Now())
		for range 2 { // the same times, used twice, move it once
			c.follow(anchor+elapsed+micros(step.ahead), elapsed)
		}
		if moved := c.anchor.Load() - anchor; moved < 0 || (moved > 0) != step.moves || step.moves && moved != micros(step.ahead) {
			t.Errorf("a wall clock %v ahead moves the time by %dµs", step.ahead, moved)
		}
		if c.now() < now {
			t.Errorf("a wall clock %v ahead sets the time back", step.ahead)
		}
	}
}

// TestClockNeverGoesBack: whatever the wall clock does, time never goes back for anybody.
func TestClockNeverGoesBack(t *testing.T) {
	var c clock
	c.init()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			last := c.now()
			for i := range 5000 {
				now := c.now()
				if now < last {
					t.Errorf("%d after %d", now, last)
					return
				}
				last = now
				c.follow(now+int64((i*7+g)%5-2)*micros(time.Second), c.elapsed(time.Now()))
			}
		})
	}
	wg.Wait()
}

// TestStaleTimes: a decision may use a time that was read long before the times of other
// decisions. That does not count as a clock that was set back.
func TestStaleTimes(t *testing.T) {
	s, err := New(Options{Stripes: 1})
	if err != nil {
		t.Fatal(err)
	}
	// Only a clock that was set back would empty the bucket.
	l := sluice.MustLimit("stale", sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000), Burst: 1_000_000})
	take(t, s, l, numbered(0), 1)
	p := s.locate(s.version(l), numbered(0))
	p.stripe.lock()
	e := p.stripe.lookup(&p)
	p.stripe.unlock()
	for round := range 200 {
		// One goroutine holds the entry, while two others have read the time and wait.
		if !e.lock(p.tag) {
			t.Fatal("the entry has another tag")
		}
		var wg sync.WaitGroup
		var ready atomic.Int64
		ask := func(decide func() (sluice.Decision, error)) {
			wg.Go(func() {
				ready.Add(1)
				if d, err := decide(); err != nil || !d.Allowed {
					t.Errorf("round %d: %+v, %v", round, d, err)
				}
			})
		}
		ask(func() (sluice.Decision, error) { return s.Take(context.Background(), l, numbered(0), 1) })
		ask(func() (sluice.Decision, error) {
			return s.Decide(context.Background(), sluice.Request{Limit: l, Key: numbered(0), Cost: 1, Floor: 1})
		})
		for spins := 0; ready.Load() < 2 || spins < 100; spins++ {
			runtime.Gosched()
		}
		// The wall clock is a minute ahead, and then the entry is charged.
		s.clock.follow(s.clock.now()+micros(time.Minute), s.clock.elapsed(time.Now()))
		e.state.T, e.state.V = s.clock.now(), 1
		e.unlock(p.tag)
		wg.Wait()
	}
}

// TestCloseFreesStates: a closed store keeps neither goroutines nor states.
func TestCloseFreesStates(t *testing.T) {
	goroutines, before := runtime.NumGoroutine(), heapBytes()
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := lasting("close", 5)
	log := sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerDay(5)})
	for i := range 12_000 {
		take(t, s, l, numbered(i), 1)
		take(t, s, log, numbered(i%3_000), 1)
	}
	filled := heapBytes() - before
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines before, %d with a store", goroutines, n)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	}
	if left := heapBytes() - before; left > filled/4 {
		t.Errorf("%d bytes of heap with 15,000 states, %d once closed", filled, left)
	}
	if st := s.Stats(); st.Keys != 0 {
		t.Errorf("once closed: %+v", st)
	}
	checkInvariants(t, s)
	runtime.KeepAlive(s)
}
