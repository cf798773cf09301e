package decisions

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/redisstore"
)

// TestEvictedGrants: a server that evicts forgets what a key has used, and what processes hold of it. That adds one limit at
// most: the next report counts all that a process has spent of the forgotten grant, and the units in hand that it
// still has are lost, and not granted twice.
func TestEvictedGrants(t *testing.T) {
	t.Parallel()
	const room, most, capacity = 200 << 10, 8_000, 1000
	s := redistest.Start(t, redistest.Config("maxmemory-policy allkeys-lru"))
	store := adapters.Rueidis.Open(t, adapters.To(s.Addr()), redisstore.Options{})
	l := hybrid(t, "l", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: capacity}, sluice.Hybrid{Stranded: 0.5, Life: time.Minute})
	key := sluice.StringKey("k")
	claim := func(c driver.Claim) driver.Grant {
		t.Helper()
		c.Limit, c.Key = l, key
		var out [1]driver.Grant
		store.Grant(t.Context(), 7, []driver.Claim{c}, out[:])
		if out[0].Err != nil {
			t.Fatal(out[0].Err)
		}
		return out[0]
	}
	first := claim(driver.Claim{Seq: 1, Take: 300, Want: 200, Demand: 1000})
	if !first.Decision.Allowed || first.Units != 200 {
		t.Fatalf("the first grant: %+v", first)
	}
	if _, err := s.Do(t.Context(), "CONFIG", "SET", "maxmemory", strconv.FormatInt(memoryUsed(t, s)+room, 10)); err != nil {
		t.Fatal(err)
	}
	exists := func() bool {
		n, err := s.Do(t.Context(), "EXISTS", "sluice{k}:l")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(n) == "1"
	}
	if !exists() {
		t.Fatal("the key is missing before the flood")
	}
	for i := 0; exists(); i++ {
		if i == most {
			t.Fatalf("%d keys of a flood did not evict the key", most)
		}
		if _, err := store.Decide(t.Context(), sluice.Request{Limit: evictionAllow, Key: sluice.StringKey(fmt.Sprint("flood ", i)), Cost: 1}); err != nil {
			t.Fatal(err)
		}
	}
	again := claim(driver.Claim{Seq: 2, Birth: first.Birth, Till: first.Till, Spent: 150, Want: 2000, Demand: 1000})
	if again.Birth == first.Birth || again.Free+again.Units != capacity-150 || again.Escrow != again.Units {
		t.Errorf("after the eviction, with 150 units of the grant spent: %+v", again)
	}
}
