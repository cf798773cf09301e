package memory

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// returning are limits of all algorithms whose states are fresh again after 100 ms or less.
var returning = []sluice.Algorithm{
	sluice.TokenBucket{Rate: sluice.PerSecond(50), Burst: 5},
	sluice.TokenBucket{Rate: sluice.PerSecond(50), Burst: 5, WarmUp: 20 * time.Millisecond},
	sluice.LeakyBucket{Rate: sluice.PerSecond(50), Queue: 5},
	sluice.FixedWindow{Rate: sluice.Per(5, 50*time.Millisecond)},
	sluice.FixedWindow{Rate: sluice.Per(5, 50*time.Millisecond), Opened: true},
	sluice.SlidingWindow{Rate: sluice.Per(5, 50*time.Millisecond)},
	sluice.SlidingCounter{Rate: sluice.Per(5, 50*time.Millisecond)},
	sluice.SlidingLog{Rate: sluice.Per(5, 50*time.Millisecond)},
	sluice.Concurrency{Max: 5, TTL: 50 * time.Millisecond},
}

// visit sends a request of a numbered key. A lease ends at once.
func visit(t *testing.T, s *Store, l *sluice.Limit, i int) {
	t.Helper()
	r := sluice.Request{Limit: l, Key: numbered(i), Cost: 1, Member: 1}
	d, err := s.Decide(t.Context(), r)
	if err != nil || !d.Allowed {
		t.Fatalf("%v, key %d: %+v, %v", l, i, d, err)
	}
	if l.Params().Kind == algo.KindConcurrency {
		if err := s.Release(t.Context(), r.Charge(&d), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// upkeepAll does upkeep at a time, in all stripes, as if all sweeps were due.
func upkeepAll(s *Store, now int64) {
	for i := range s.stripes {
		sp := &s.stripes[i]
		for range 2 * (2 + len(sp.now.entries)/sweepEntries) {
			sp.lock()
			sp.nextSweep = now
			sp.upkeep(now)
			sp.unlock()
		}
	}
}

// TestReturningKeysAreDecidedQuickly: keys whose states are fresh again at each visit keep their
// entries, and are decided with only the entry locked.
func TestReturningKeysAreDecidedQuickly(t *testing.T) {
	t.Parallel()
	for _, a := range returning {
		now := int64(start)
		s := open(t, &now, Options{Stripes: 2})
		l := sluice.MustLimit("returning", a)
		const keys = 500
		for i := range keys {
			visit(t, s, l, i)
		}
		for n := range 5 {
			now += briefStay * 9 / 10
			upkeepAll(s, now)
			if got := s.Stats().Keys; got != keys {
				t.Fatalf("%v: %d keys at visit %d", l, got, n)
			}
			for i := range keys {
				if !l.Params().Inline() {
					visit(t, s, l, i)
					continue
				}
				var d sluice.Decision
				if a := s.decideFast(s.version(l), numbered(i), 1, 0, 0, false, &d); a != (absent{}) || !d.Allowed {
					t.Fatalf("%v, key %d at visit %d: %+v, %+v", l, i, n, a, d)
				}
			}
		}
	}
}

// TestFreshStatesStayForAWhile: a state that nobody visits stays until longStay after it has become
// fresh, and not much longer.
func TestFreshStatesStayForAWhile(t *testing.T) {
	t.Parallel()
	for _, a := range returning {
		now := int64(start)
		s := open(t, &now, Options{Stripes: 1})
		l := sluice.MustLimit("stay", a)
		const keys = 500
		for i := range keys {
			visit(t, s, l, i)
		}
		stay := int64(longStay)
		if !l.Params().Inline() {
			stay = briefStay
		}
		for now < start+stay {
			upkeepAll(s, now)
			if n := s.Stats().Keys; n != keys {
				t.Fatalf("%v: %d keys after %dµs", l, n, now-start)
			}
			now += stay / 10
		}
		now += 200_000
		upkeepAll(s, now)
		if n := s.Stats().Keys; n != 0 {
			t.Errorf("%v: %d keys are left %dµs after they were used", l, n, now-start)
		}
	}
}

// TestSweepsFollowTheStay: while requests come, few or many, a state that nobody visits is given up between the stay and a
// little more than the time of a pass later.
func TestSweepsFollowTheStay(t *testing.T) {
	t.Parallel()
	for _, step := range []int64{200, 20_000} {
		now := int64(start)
		s := open(t, &now, Options{Stripes: 1})
		l := brief("unvisited", 10_000)
		const keys = 500
		for i := range keys {
			visit(t, s, l, i)
		}
		swept := 0
		for at, sp := now, &s.stripes[0]; now < at+longStay; now += step {
			visit(t, s, l, 0)
			if swept += sp.worked; s.Stats().Keys != keys {
				t.Fatalf("requests each %d µs: %d keys of %d after %d µs; all stay for %d", step, s.Stats().Keys, keys, now-at, longStay)
			}
			sp.worked = 0
		}
		if most := (passes + 2) * len(s.stripes[0].now.entries); swept > most {
			t.Errorf("requests each %d µs: %d entries are swept in a stay; %d passes need %d", step, swept, passes, most)
		}
		for at := now; now < at+longStay/passes+longStay/10; now += step {
			visit(t, s, l, 0)
		}
		if n := s.Stats().Keys; n != 1 {
			t.Errorf("requests each %d µs: %d keys are left %d µs after they were used; only one is visited", step, n, now-start)
		}
	}
}

// TestIdleStoreShrinks: a store with many fresh states and few requests, whose keys never return,
// is small again within a minute.
func TestIdleStoreShrinks(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 8})
	empty := s.Stats().Bytes
	l := brief("idle", 5)
	const keys = 40_000
	for i := range keys {
		now += 10
		take(t, s, l, numbered(i), 1)
	}
	full := s.Stats().Bytes
	const perSecond = 400
	for i := range 60 * perSecond {
		now += 1_000_000 / perSecond
		take(t, s, l, numbered(i%8), 1)
	}
	if st := s.Stats(); st.Keys > 10 || st.Bytes > empty+(full-empty)/50 {
		t.Errorf("%d bytes empty, %d with %d keys; a minute later %+v", empty, full, keys, st)
	}
}

// TestFloodOfKeysThatNeverReturn: a flood of new keys whose states are soon fresh takes no more memory
// the longer it lasts, and pushes no other state out.
func TestFloodOfKeysThatNeverReturn(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 4})
	kept, l := lasting("kept", 5), brief("flood", 100)
	const debtors = 500
	for i := range debtors {
		take(t, s, kept, numbered(i), 1+int64(i%5))
	}
	flood := func(from, seconds int) (most int64) {
		// The states of this rate fill tables of one size, whatever the seed. At 5000 a second some seeds need the next size,
		// but not within four seconds.
		const perSecond = 6250
		for i := range seconds * perSecond {
			now += 1_000_000 / perSecond
			if d := take(t, s, l, numbered(from*perSecond+i), 1); !d.Allowed || d.Overflow {
				t.Fatalf("new key %d: %+v", i, d)
			}
			if i%1000 == 0 {
				most = max(most, s.Stats().Bytes)
			}
		}
		return most
	}
	// Within four seconds the store has all the memory that it needs for this rate of new keys.
	if first, later := flood(0, 4), flood(4, 8); later > first {
		t.Errorf("%d bytes in the first seconds of the flood, %d later", first, later)
	}
	for i := range debtors {
		if d := take(t, s, kept, numbered(i), 0); d.Remaining != 4-int64(i%5) {
			t.Fatalf("key %d after the flood: %+v", i, d)
		}
	}
}

// TestFreshStatesMakeRoom: in a store that may not grow, states that equal fresh ones make room for
// other keys, however short ago they were used.
func TestFreshStatesMakeRoom(t *testing.T) {
	t.Parallel()
	for _, a := range []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 5},
		sluice.SlidingLog{Rate: sluice.PerDay(5)},
	} {
		for _, stripes := range []int{1, 16} {
			now := int64(start)
			s := open(t, &now, Options{MaxBytes: leastBytes, Stripes: stripes, DenyWhenFull: true})
			l, returning := sluice.MustLimit("kept", a), brief("returning", 1000)
			kept, visitors := 0, 0
			// New keys with debts come, and four times as many that return at once.
			for range leastBytes / 500 {
				now += 1000
				if d := take(t, s, l, numbered(kept), 1); !d.Allowed || d.Overflow {
					t.Fatalf("%v in %d stripes: new key %d, with %+v: %+v", l, stripes, kept, s.Stats(), d)
				}
				kept++
				for range 4 {
					now += 1000
					visitors++
					if d := take(t, s, returning, numbered(visitors), 1); !d.Allowed || d.Overflow {
						t.Fatalf("%v in %d stripes: visitor %d, with %+v: %+v", l, stripes, visitors, s.Stats(), d)
					}
				}
			}
			if st := s.Stats(); st.Bytes > leastBytes {
				t.Errorf("%d bytes of %d", st.Bytes, leastBytes)
			}
			for i := range kept {
				if d := take(t, s, l, numbered(i), 0); d.Remaining != 4 {
					t.Fatalf("%v in %d stripes: key %d: %+v", l, stripes, i, d)
				}
			}
		}
	}
}

// TestCrowdedTablesStayEven: keys that are soon fresh and never return are given up where new keys
// come, also after pauses in which all become fresh. If they were given up from one end of the table
// to the other, the far end would fill up, and new keys would have no room in a table of which most
// is empty.
func TestCrowdedTablesStayEven(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 1})
	l := sluice.MustLimit("even", sluice.TokenBucket{Rate: sluice.PerSecond(20), Burst: 1000})
	sp := &s.stripes[0]
	const pause = 20_000
	for i := range 8 * pause {
		if i%pause == 0 {
			now += longStay
		}
		now += int64(i % 2)
		if d := take(t, s, l, numbered(i), 1); !d.Allowed || d.Overflow {
			t.Fatalf("new key %d: %+v, with %+v", i, d, s.Stats())
		}
		if i%(pause/2) != 0 {
			continue
		}
		for j := range sp.now.entries {
			if key := sp.now.entries[j].key.Load(); key != 0 && j-sp.now.home(key) > slack {
				t.Fatalf("with %d keys, a key lies %d entries from its home", sp.keys(), j-sp.now.home(key))
			}
		}
	}
}

// TestSearchBehindAFullTable: a search for a key that belongs behind all entries ends.
func TestSearchBehindAFullTable(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 1})
	l := brief("full", 5)
	full := newTable(firstSize)
	for i := range full.entries[:len(full.entries)-sentinels] {
		full.entries[i].key.Store(1)
	}
	sp := &s.stripes[0]
	empty := sp.now
	sp.publish(full)
	var d sluice.Decision
	for i := range 100 {
		if a := s.decideFast(s.version(l), numbered(i), 1, 0, 0, false, &d); a.key == 0 {
			t.Errorf("key %d is found, and was never used", i)
		}
	}
	sp.publish(empty)
}
