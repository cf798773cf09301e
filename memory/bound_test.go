package memory

import (
	"encoding/binary"
	"hash/fnv"
	"runtime"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// heap returns the bytes of live objects.
func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestDeniedKeyStaysDenied floods a bounded store with ten times the keys that it holds: its
// memory stays within the bound, and a denied key stays denied.
func TestDeniedKeyStaysDenied(t *testing.T) {
	const bound = leastBytes
	now := int64(start)
	before := heapBytes()
	s := open(t, &now, Options{MaxBytes: bound, Stripes: 32})
	l := lasting("flood", 2)
	log := sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerDay(2)})
	ban := sluice.Request{
		Limit: l, Key: sluice.StringKey("banned"), Cost: 1,
		Ban: &sluice.Ban{After: 1, For: 48 * time.Hour},
	}
	for range 3 {
		take(t, s, l, sluice.StringKey("victim"), 1)
		take(t, s, log, sluice.StringKey("victim"), 1)
		if _, err := s.Decide(t.Context(), ban); err != nil {
			t.Fatal(err)
		}
	}
	most, overflow, capacity := int64(0), 0, 0
	for i := 0; overflow == 0 || i < 10*capacity; i++ {
		if d := take(t, s, l, numbered(i), 1); d.Overflow {
			if overflow++; overflow == 1 {
				capacity = int(s.Stats().Keys)
			}
		}
		if i%500 != 0 {
			continue
		}
		if d := take(t, s, l, sluice.StringKey("victim"), 1); d.Allowed || d.Overflow {
			t.Fatalf("the denied key, after %d others: %+v", i, d)
		}
		if d := take(t, s, log, sluice.StringKey("victim"), 1); d.Allowed || d.Overflow {
			t.Fatalf("the denied key of a log, after %d others: %+v", i, d)
		}
		if d, err := s.Decide(t.Context(), ban); err != nil || d.Reason != sluice.ReasonBanned {
			t.Fatalf("the banned key, after %d others: %+v, %v", i, d, err)
		}
		if most = max(most, s.Stats().Bytes); most > bound {
			t.Fatalf("%d bytes after %d keys; the bound is %d", most, i, bound)
		}
	}
	st := s.Stats()
	if st.Overflow == 0 || overflow == 0 {
		t.Errorf("after ten times the keys: %+v, %d decisions say Overflow", st, overflow)
	}
	if st.Keys < bound/entryBytes/2 {
		t.Errorf("%d keys in %d bytes: the bound is not used", st.Keys, bound)
	}
	// The store counts the real memory, except what the runtime itself needs.
	if used := heapBytes() - before; used > bound+bound/8 {
		t.Errorf("%d bytes of heap; %d are counted, of a bound of %d", used, st.Bytes, bound)
	}
	// Three days later all states are fresh, and new keys have units of their own again.
	now += micros(72 * time.Hour)
	for i := range 2 * capacity {
		now += 1000
		take(t, s, l, numbered(i%64), 1)
	}
	checkInvariants(t, s)
	for i := range capacity / 8 {
		if d := take(t, s, l, numbered(-1-i), 2); !d.Allowed || d.Overflow {
			t.Fatalf("new key %d, with room again: %+v", i, d)
		}
	}
}

// full returns a store of one stripe that has no room for another key.
func full(t *testing.T, now *int64, deny bool) *Store {
	t.Helper()
	s := open(t, now, Options{MaxBytes: leastBytes, Stripes: 1, DenyWhenFull: deny})
	l := lasting("filler", 1)
	for i := 0; s.Stats().Overflow == 0; i++ {
		take(t, s, l, numbered(i), 1)
		if i > 10*leastBytes/entryBytes {
			t.Fatal("the store does not fill up")
		}
	}
	return s
}

// TestNewKeysShareWhenFull: with no room left, new keys of a limit share one state. Other limits
// and known keys are not affected.
func TestNewKeysShareWhenFull(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := full(t, &now, false)
	for _, a := range []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 5},
		sluice.FixedWindow{Rate: sluice.PerDay(5)},
		sluice.SlidingLog{Rate: sluice.PerDay(5)},
	} {
		l := sluice.MustLimit("", a)
		for i := range 5 {
			d := take(t, s, l, numbered(i), 1)
			if !d.Allowed || !d.Overflow || d.Remaining != int64(4-i) {
				t.Fatalf("%v, new key %d: %+v", l, i, d)
			}
		}
		d := take(t, s, l, numbered(5), 1)
		if d.Allowed || d.Reason != sluice.ReasonLimited || d.RetryAfter <= 0 {
			t.Errorf("%v, the new key beyond the budget that is shared: %+v", l, d)
		}
	}
	// A charge to the shared state is given back to the shared state.
	l := lasting("ends", 5)
	charges := make([]sluice.Charge, 3)
	for i := range charges {
		r := sluice.Request{Limit: l, Key: numbered(i), Cost: 1}
		d := take(t, s, l, r.Key, 1)
		charges[i] = r.Charge(&d)
	}
	if err := s.Cancel(t.Context(), charges[0]); err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(t.Context(), charges[1], 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(t.Context(), charges[2], 2); err != nil {
		t.Fatal(err)
	}
	if d := take(t, s, l, numbered(7), 1); !d.Allowed || d.Remaining != 2 {
		t.Errorf("five, of which two are settled and one is taken: %+v", d)
	}
	checkInvariants(t, s)
}

// TestBatchesWhenFull: a batch over new keys that share a state gets no more than it holds, and
// takes all or nothing.
func TestBatchesWhenFull(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := full(t, &now, false)
	filler := lasting("filler", 1)
	for _, a := range []sluice.Algorithm{
		sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 5},
		sluice.SlidingLog{Rate: sluice.PerDay(5)},
	} {
		l := sluice.MustLimit("", a)
		batch := func(keys ...int) (allowed int) {
			t.Helper()
			rs := make([]sluice.Request, len(keys))
			for i, k := range keys {
				rs[i] = sluice.Request{Limit: l, Key: numbered(k), Cost: 1}
			}
			out := make([]sluice.Decision, len(rs))
			if err := s.DecideAll(t.Context(), rs, out); err != nil {
				t.Fatal(err)
			}
			for _, d := range out {
				if d.Allowed {
					allowed++
				}
			}
			return allowed
		}
		if n := batch(1, 2, 3); n != 3 {
			t.Fatalf("%v: %d of three new keys pass, with a budget of five", l, n)
		}
		for range 3 {
			if n := batch(4, 5, 6); n != 2 {
				t.Fatalf("%v: %d of three new keys pass, with two units left", l, n)
			}
			if n := batch(4, 4, 5, 5); n != 2 {
				t.Fatalf("%v: %d of two new keys, requested twice, pass with two units left", l, n)
			}
		}
		if n := batch(4, 5); n != 2 {
			t.Fatalf("%v: %d of two new keys pass, with two units left", l, n)
		}
		if n := batch(6, 0); n != 0 {
			t.Fatalf("%v: %d of two new keys pass, with nothing left", l, n)
		}
	}
	// A known key is charged on its own state, and not at all if a new key is denied.
	l := lasting("both", 1)
	take(t, s, l, numbered(1), 1)
	rs := []sluice.Request{{Limit: filler, Key: numbered(0)}, {Limit: l, Key: numbered(2), Cost: 1}}
	out := make([]sluice.Decision, 2)
	if err := s.DecideAll(t.Context(), rs, out); err != nil {
		t.Fatal(err)
	}
	if !out[0].Allowed || out[0].Overflow || out[1].Allowed {
		t.Errorf("a known key and a new one: %+v", out)
	}
	checkInvariants(t, s)
}

// TestNewKeysAreDeniedWhenFull: with DenyWhenFull, new keys are denied for lack of room, one
// by one and in batches, and charge nothing.
func TestNewKeysAreDeniedWhenFull(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := full(t, &now, true)
	filler, l := lasting("filler", 1), lasting("new", 5)
	d := take(t, s, l, numbered(0), 1)
	if d.Allowed || d.Reason != sluice.ReasonTableFull || d.RetryAfter <= 0 || d.Limit != 5 {
		t.Errorf("a new key: %+v", d)
	}
	if d := take(t, s, filler, numbered(0), 1); d.Allowed || d.Reason != sluice.ReasonLimited {
		t.Errorf("a known key: %+v", d)
	}
	log := sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerDay(5)})
	if d := take(t, s, log, numbered(0), 1); d.Allowed || d.Reason != sluice.ReasonTableFull {
		t.Errorf("a new key of a log: %+v", d)
	}
	r := sluice.Request{Limit: l, Key: numbered(0), Cost: 1, Ban: &sluice.Ban{After: 1, For: time.Hour}}
	for range 2 {
		if d, err := s.Decide(t.Context(), r); err != nil || d.Reason != sluice.ReasonTableFull {
			t.Errorf("a new key that could be banned: %+v, %v", d, err)
		}
	}
	more := lasting("filler", 3) // known keys are converted, and have two units more
	rs := []sluice.Request{{Limit: more, Key: numbered(0)}, {Limit: l, Key: numbered(1), Cost: 1}}
	out := make([]sluice.Decision, 2)
	if err := s.DecideAll(t.Context(), rs, out); err != nil {
		t.Fatal(err)
	}
	if !out[0].Allowed || out[1].Allowed || out[1].Reason != sluice.ReasonTableFull {
		t.Errorf("a known key and a new one: %+v", out)
	}
	if err := s.Cancel(t.Context(), r.Charge(&sluice.Decision{Receipt: sluice.Receipt{At: now}})); err != nil {
		t.Errorf("canceling what was never charged: %v", err)
	}
	checkInvariants(t, s)
}

// TestStateThatCannotGrow: a state that needs more memory than there is denies, and allows again
// when it has room.
func TestStateThatCannotGrow(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{MaxBytes: leastBytes, Stripes: 1, DenyWhenFull: true})
	l := sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerHour(60_000)})
	granted := 0
	for {
		now++
		d := take(t, s, l, numbered(1), 1)
		if !d.Allowed {
			if d.Reason != sluice.ReasonTableFull || d.RetryAfter <= 0 {
				t.Fatalf("unit %d: %+v", granted+1, d)
			}
			break
		}
		granted++
	}
	if st := s.Stats(); granted < 1000 || st.Bytes > leastBytes {
		t.Fatalf("%d units in %d bytes", granted, st.Bytes)
	}
	r := sluice.Request{Limit: l, Key: numbered(1), Peek: true}
	if d, err := s.Decide(t.Context(), r); err != nil || d.Remaining != int64(60_000-granted) {
		t.Errorf("a peek at a state that cannot grow: %+v, %v", d, err)
	}
	checkInvariants(t, s)
	now += micros(time.Hour) - int64(granted)/2 // half of its entries have left
	for i := range granted / 2 {
		if d := take(t, s, l, numbered(1), 1); !d.Allowed {
			t.Fatalf("unit %d in the location of another: %+v", i, d)
		}
	}
}

// fnv1a continues a 32-bit FNV-1a hash over 8 bytes.
func fnv1a(h uint32, block uint64) uint32 {
	for range 8 {
		h = (h ^ uint32(block&0xff)) * 16777619
		block >>= 8
	}
	return h
}

// collisions returns 2ⁿ texts with the same 32-bit FNV-1a hash: each chooses one of two blocks, n
// times.
func collisions(n int) []string {
	texts := []string{""}
	h := uint32(2166136261)
	for range n {
		seen := make(map[uint32]uint64, 1<<16)
		for i := uint64(1); ; i++ {
			block := i * 0x9e3779b97f4a7c15
			next := fnv1a(h, block)
			other, ok := seen[next]
			if !ok {
				seen[next] = block
				continue
			}
			var longer []string
			for _, text := range texts {
				for _, b := range [2]uint64{block, other} {
					longer = append(longer, string(binary.LittleEndian.AppendUint64([]byte(text), b)))
				}
			}
			texts, h = longer, next
			break
		}
	}
	return texts
}

// TestHashFlooding: keys that collide under a hash without a seed are spread like all others.
func TestHashFlooding(t *testing.T) {
	t.Parallel()
	texts := collisions(17)[:100_000]
	first := fnv.New32a()
	_, _ = first.Write([]byte(texts[0]))
	for i := range 1000 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(texts[i*100+99]))
		if h.Sum32() != first.Sum32() {
			t.Fatal("the keys do not collide: the test is wrong")
		}
	}
	now := int64(start)
	s := open(t, &now, Options{Stripes: 64})
	l := lasting("hash", 5)
	for _, text := range texts {
		if d := take(t, s, l, sluice.StringKey(text), 1); d.Remaining != 4 {
			t.Fatalf("a key that was seen before: %+v", d)
		}
	}
	most, farthest := 0, 0
	for i := range s.stripes {
		sp := &s.stripes[i]
		most = max(most, sp.keys())
		for j := range sp.now.entries {
			if key := sp.now.entries[j].key.Load(); key != 0 {
				farthest = max(farthest, j-sp.now.home(key))
			}
		}
	}
	if mean := len(texts) / len(s.stripes); most > 2*mean {
		t.Errorf("%d keys in one stripe; the mean is %d", most, mean)
	}
	if farthest > slack {
		t.Errorf("a key lies %d entries from its home", farthest)
	}
}
