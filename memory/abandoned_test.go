package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// TestAbandonedHoldsFreeTheirMemory: nobody settles 100,000 holds. After their time, requests for other keys, without holds, free
// their memory, and all units are back. A store without room keeps the cost charged.
func TestAbandonedHoldsFreeTheirMemory(t *testing.T) {
	now := int64(1e15)
	s, err := New(Options{Clock: func() int64 { return now }, Stripes: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	limit := sluice.MustLimit("holds", sluice.FixedWindow{Rate: sluice.PerDay(1000)})
	ask := func(key string, cost int64, hold time.Duration) sluice.Decision {
		d, err := s.Decide(t.Context(), sluice.Request{Limit: limit, Key: sluice.StringKey(key), Cost: cost, Hold: hold})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	held := func() (n int) {
		for i := range s.stripes {
			n += len(s.stripes[i].holds.queue)
		}
		return n
	}
	for i := range 100_000 {
		if d := ask(fmt.Sprint(i%200), 1, time.Minute); !d.Allowed {
			t.Fatalf("hold %d: %+v", i, d)
		}
	}
	full := s.Stats().Bytes
	if held() != 100_000 || full < 100_000*heldBytes {
		t.Fatalf("%d holds in %d bytes", held(), full)
	}
	now += time.Minute.Microseconds()
	for i := 0; held() > 0; i++ {
		now += 2 * quickUpkeep
		ask(fmt.Sprint("other ", i%1000), 1, 0)
	}
	if after := s.Stats().Bytes; after > full-100_000*heldBytes+1<<20 {
		t.Errorf("%d bytes with 100000 holds, %d without", full, after)
	}
	for i := range 200 {
		if d := ask(fmt.Sprint(i), 1000, 0); !d.Allowed {
			t.Fatalf("all units of key %d: %+v", i, d)
		}
	}
	checkInvariants(t, s)

	small, err := New(Options{MaxBytes: 1 << 20, Stripes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	s = small
	for range 1000 {
		for range 10 {
			ask("a", 0, time.Hour) // no cost, no hold
		}
		ask("a", 1, time.Hour)
	}
	if n := held(); n != 1000 {
		t.Errorf("%d holds of 1000 charges", n)
	}
	for i := range 10_000 {
		ask(fmt.Sprint("b", i), 1, time.Hour)
	}
	if n, bytes := held(), small.Stats().Bytes; n >= 11_000 || bytes > 1<<20 {
		t.Errorf("%d holds in %d bytes, of 1 MiB", n, bytes)
	}
	checkInvariants(t, small)
}
