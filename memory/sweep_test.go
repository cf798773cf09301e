package memory

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// TestOnlyFreshStatesAreForgotten sweeps states of all algorithms as time passes: each stays
// until it equals a fresh one, and disappears soon afterwards.
func TestOnlyFreshStatesAreForgotten(t *testing.T) {
	t.Parallel()
	for _, a := range []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerSecond(5)},
		sluice.TokenBucket{Rate: sluice.PerSecond(5), WarmUp: 200 * time.Millisecond},
		sluice.LeakyBucket{Rate: sluice.PerSecond(5), Queue: 5},
		sluice.FixedWindow{Rate: sluice.PerSecond(5)},
		sluice.FixedWindow{Rate: sluice.PerSecond(5), Opened: true},
		sluice.SlidingWindow{Rate: sluice.PerSecond(5)},
		sluice.SlidingCounter{Rate: sluice.PerSecond(5)},
		sluice.SlidingLog{Rate: sluice.PerSecond(5)},
		sluice.Concurrency{Max: 5, TTL: time.Second},
	} {
		now := int64(start)
		s := open(t, &now, Options{Stripes: 1})
		l := sluice.MustLimit("sweep", a)
		const keys = 200
		until := make([]int64, keys) // when each is fresh again
		for i := range keys {
			now += 3_000
			r := sluice.Request{Limit: l, Key: numbered(i), Cost: 1 + int64(i%5), Member: uint64(i + 1)}
			d, err := s.Decide(t.Context(), r)
			if err != nil || !d.Allowed {
				t.Fatalf("%v, key %d: %+v, %v", l, i, d, err)
			}
			until[i] = now + micros(d.ResetAfter)
		}
		sp := &s.stripes[0]
		for now < start+micros(4*time.Second) {
			now += 10_000
			sp.giveUpAll(now)
			live := 0
			for i := range keys {
				if until[i] <= now {
					continue
				}
				live++
				r := sluice.Request{Limit: l, Key: numbered(i), Peek: true}
				if d, err := s.Decide(t.Context(), r); err != nil || micros(d.ResetAfter) != until[i]-now {
					t.Fatalf("%v, key %d, %dµs before it is fresh: %+v, %v", l, i, until[i]-now, d, err)
				}
			}
			if n := int(s.Stats().Keys); n < live || n > live && sp.old == nil {
				t.Fatalf("%v: %d keys, of which %d are not fresh", l, n, live)
			}
		}
		if st := s.Stats(); st.Keys != 0 {
			t.Errorf("%v: all are fresh: %+v", l, st)
		}
	}
}

// TestSweepsAndShrinks: a store of which only a few keys are still used frees the memory of the
// others.
func TestSweepsAndShrinks(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 4})
	empty := s.Stats().Bytes
	l := brief("shrink", 5)
	const keys = 15_000
	for i := range keys {
		take(t, s, l, numbered(i), 1)
	}
	full := s.Stats().Bytes
	for i := range 8 * keys {
		now += 1000
		take(t, s, l, numbered(i%20), 1)
	}
	if st := s.Stats(); st.Keys > 40 || st.Bytes > empty+(full-empty)/50 {
		t.Errorf("%d bytes empty, %d with %d keys; a while later %+v", empty, full, keys, st)
	}
}

// TestKeysComeWhileATableShrinks: a large table that is almost empty shrinks while new keys
// arrive: all of them have room.
func TestKeysComeWhileATableShrinks(t *testing.T) {
	t.Parallel()
	for _, left := range []int{1, 300} {
		now := int64(start)
		s := open(t, &now, Options{Stripes: 1})
		old, kept := brief("old", 5), lasting("kept", 5)
		for i := range 20_000 {
			take(t, s, old, numbered(i), 1)
		}
		for i := range left {
			take(t, s, kept, numbered(i), 1)
		}
		now += micros(time.Minute)
		sp := &s.stripes[0]
		large := sp.now.size
		// A pass over the table begins when all but a few states are fresh, and lasts until
		// another table begins.
		sp.sweepAt = 0
		for sp.old == nil && sp.now.size == large {
			sp.lock()
			sp.sweep(sweepEntries, 0, now)
			sp.unlock()
		}
		for i := range 20_000 {
			if d := take(t, s, kept, numbered(left+i), 2); !d.Allowed || d.Overflow || d.Remaining != 3 {
				t.Fatalf("%d keys left, new key %d: %+v", left, i, d)
			}
			if n := worked(s); n > maxWork {
				t.Fatalf("%d keys left, new key %d: %d entries moved or swept; the most is %d", left, i, n, maxWork)
			}
			if i%5000 == 0 {
				checkInvariants(t, s)
			}
		}
		for i := range left {
			if d := take(t, s, kept, numbered(i), 0); d.Remaining != 4 {
				t.Fatalf("%d keys left, key %d: %+v", left, i, d)
			}
		}
	}
}

// TestBansAreSwept: counts of denials, and bans that have ended, are forgotten too.
func TestBansAreSwept(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 1})
	l := brief("bans", 1)
	terms := &sluice.Ban{After: 2, For: time.Second}
	for i := range 2000 {
		for range 1 + i%4 {
			r := sluice.Request{Limit: l, Key: numbered(i), Cost: 1, Ban: terms}
			if _, err := s.Decide(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := s.Stats().Keys; n < 3000 {
		t.Fatalf("%d keys: bans are not counted among them", n)
	}
	checkInvariants(t, s)
	now += longStay
	for range 20_000 {
		now += 1000
		take(t, s, l, numbered(0), 1)
	}
	if n := s.Stats().Keys; n > 2 {
		t.Errorf("%d keys when all bans have ended", n)
	}
}
