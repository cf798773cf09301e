package vectors

import (
	"strconv"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// TestFloodForgetsNoDebt fills a store with other keys. The store must not forget a key that has used
// its budget. The test replaces the vectors of caches, which evict the oldest key and its debt.
func TestFloodForgetsNoDebt(t *testing.T) {
	for name, deny := range map[string]bool{"deny": true, "share": false} {
		t.Run(name, func(t *testing.T) {
			now := int64(1_700_000_000_000_000)
			store, err := memory.New(memory.Options{MaxBytes: 1 << 20, Stripes: 1, DenyWhenFull: deny, Clock: func() int64 { return now }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			l := sluice.NewLimiter(store, sluice.MustLimit("slow", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 2}))
			allow := func(key string) bool {
				d, err := l.Allow(t.Context(), sluice.StringKey(key))
				if err != nil {
					t.Fatal(err)
				}
				return d.Allowed
			}
			const drained = 100
			victim := func(i int) string { return "victim " + strconv.Itoa(i) }
			for i := range drained {
				for n := range 3 {
					if allow(victim(i)) != (n < 2) {
						t.Fatalf("%s: two units do not drain the bucket", victim(i))
					}
				}
			}
			passed := 0
			for i := range 40_000 {
				now += 10
				if allow("other " + strconv.Itoa(i)) {
					passed++
				}
			}
			if passed == 40_000 {
				t.Error("the store was never full")
			}
			for i := range drained {
				if allow(victim(i)) {
					t.Fatalf("%s was forgotten", victim(i))
				}
			}
			// The store may forget states that equal a fresh one, which makes room.
			now += 3 * 24 * 3600 * 1_000_000
			if !allow("late") || !allow(victim(0)) {
				t.Error("there is no room when all states are fresh again")
			}
		})
	}
}
