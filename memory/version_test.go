package memory

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// TestVersionsRetire: a hundred thousand limits, each used for a moment, leave nothing behind.
func TestVersionsRetire(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 4})
	lasts := lasting("lasts", 5)
	take(t, s, lasts, numbered(0), 1)
	most := int64(0)
	for i := range 100_000 {
		now += 20_000
		l := brief("limit-"+strconv.Itoa(i), 5)
		if d := take(t, s, l, numbered(i%100), 1); d.Remaining != 4 {
			t.Fatalf("limit %d: %+v", i, d)
		}
		most = max(most, s.Stats().Limits)
		if i%20_000 == 0 {
			checkInvariants(t, s)
		}
	}
	if n := len(*s.versions.byID.Load()); most > 2000 || n > 2000 {
		t.Errorf("%d limits at once, %d indexes for them", most, n)
	}
	if d := take(t, s, lasts, numbered(0), 0); d.Remaining != 4 {
		t.Errorf("the limit that was there before: %+v", d)
	}
	if st := s.Stats(); st.Keys > 2000 {
		t.Errorf("%d keys", st.Keys)
	}
}

// TestLimitMadeForEachRequest: limits that are made again for each request, with the same
// numbers, are one limit and leave nothing behind either.
func TestLimitMadeForEachRequest(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 4})
	for i := range 20_000 {
		l := lasting("same", 1_000_000)
		if d := take(t, s, l, numbered(0), 1); d.Remaining != int64(1_000_000-i-1) {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	if n := s.Stats().Limits; n > 1000 {
		t.Errorf("%d limits are kept instead of one", n)
	}
}

// TestRetiredVersionIsRegisteredAgain: a goroutine may find a version just before it is retired,
// and put it back into the cache. The limit can still be used.
func TestRetiredVersionIsRegisteredAgain(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 1})
	l := lasting("late", 5)
	for _, ask := range []func() error{
		func() error {
			_, err := s.Decide(context.Background(), sluice.Request{Limit: l, Key: numbered(0), Cost: 1})
			return err
		},
		func() error {
			rs := []sluice.Request{{Limit: l, Key: numbered(0), Cost: 1}, {Limit: l, Key: numbered(1), Cost: 1}}
			return s.DecideAll(context.Background(), rs, make([]sluice.Decision, 2))
		},
		func() error { return s.Reset(context.Background(), l, numbered(0)) },
	} {
		if err := s.Reset(context.Background(), l, numbered(0)); err != nil {
			t.Fatal(err)
		}
		if err := s.Reset(context.Background(), l, numbered(1)); err != nil {
			t.Fatal(err)
		}
		v := s.version(l)
		s.versions.mu.Lock()
		s.retire()
		s.versions.mu.Unlock()
		if !v.retired.Load() {
			t.Fatal("a version that no entry refers to was not given up")
		}
		s.versions.cache[v.id[0]%uint64(len(s.versions.cache))].Store(v) // as one who comes late does
		done := make(chan error, 1)
		go func() { done <- ask() }()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("a retired version is looked up forever")
		}
	}
}

// TestBatchesOfManyNewLimitsAreDecided: a batch has more new limits than are kept before unused ones are given up, and others
// like it come meanwhile. Each is decided, and charges each of its limits once.
func TestBatchesOfManyNewLimitsAreDecided(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 4})
	const batches, limits = 4, 1000
	done := make(chan error, batches)
	for g := range batches {
		go func() {
			rs, out := make([]sluice.Request, limits), make([]sluice.Decision, limits)
			for i := range rs {
				rs[i] = sluice.Request{Limit: lasting("new-"+strconv.Itoa(g)+"-"+strconv.Itoa(i), 5), Key: numbered(0), Cost: 1}
			}
			err := s.DecideAll(context.Background(), rs, out)
			for i := range out {
				if out[i].Remaining != 4 {
					t.Errorf("limit %d of batch %d: %+v", i, g, out[i])
					break
				}
			}
			done <- err
		}()
	}
	for range batches {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("a batch of many new limits is looked up forever")
		}
	}
	checkInvariants(t, s)
}

// TestLimitsComeAndGoConcurrently: while limits are registered and retired, charges to other
// limits are kept.
func TestLimitsComeAndGoConcurrently(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Stripes: 4, Clock: func() int64 { return start }})
	if err != nil {
		t.Fatal(err)
	}
	shared := lasting("shared", 2000)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1500 {
				own := lasting("own-"+strconv.Itoa(g)+"-"+strconv.Itoa(i), 2)
				k := numbered(g)
				rs := []sluice.Request{{Limit: own, Key: k, Cost: 2}, {Limit: shared, Key: numbered(-1), Cost: 1}}
				out := make([]sluice.Decision, 2)
				if err := s.DecideAll(context.Background(), rs, out); err != nil {
					t.Error(err)
					return
				}
				if !out[0].Allowed {
					t.Errorf("a limit that is new: %+v", out[0])
				}
				if out[1].Allowed {
					admitted.Add(1)
				}
				if err := s.Reset(context.Background(), own, k); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 2000 {
		t.Errorf("%d units admitted, want 2000", n)
	}
	checkInvariants(t, s)
}

// A limit that was made again with the same numbers is unchanged: its denials change no state.
func TestSameNumbersAgain(t *testing.T) {
	now := int64(start)
	s := open(t, &now, Options{})
	again := func() *sluice.Limit {
		return sluice.MustLimit("same", sluice.LeakyBucket{Rate: sluice.Per(13, 7*time.Microsecond), Queue: 7, Undelayed: 1})
	}
	took := take(t, s, again(), numbered(1), 3)
	now++
	if d := take(t, s, again(), numbered(1), 8); d.Allowed {
		t.Fatalf("8 units after 3 should be denied: %+v", d)
	}
	now--
	if d := take(t, s, again(), numbered(1), 0); d.Remaining != took.Remaining {
		t.Errorf("%d remain after a denial and the way back in time, want %d", d.Remaining, took.Remaining)
	}
}

// Limits of one name that differ in their numbers, such as the limits of plans, are found without a lock.
func TestLimitsOfOneNameAreCachedTogether(t *testing.T) {
	now := int64(start)
	s := open(t, &now, Options{})
	var limits []*sluice.Limit
	for plan := range 20 {
		limits = append(limits, sluice.MustLimit("tenants", sluice.TokenBucket{Rate: sluice.PerMinute(int64(100 * (plan + 1))), Burst: int64(50 + plan%3)}))
	}
	for i, l := range limits {
		take(t, s, l, numbered(i), 1)
	}
	cached := 0
	for _, l := range limits {
		if s.versions.cached(l) != nil {
			cached++
		}
	}
	if cached < len(limits)-2 {
		t.Errorf("of %d limits of one name, %d are cached; want nearly all", len(limits), cached)
	}
}
