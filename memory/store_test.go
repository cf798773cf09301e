package memory_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// TestManyKeysCountApart charges many keys through growth and finds each as it was left.
func TestManyKeysCountApart(t *testing.T) {
	var now int64 = 1e15
	s := newStore(t, memory.Options{Clock: func() int64 { return now }})
	limit := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 5})
	ctx := context.Background()
	const keys = 50_000
	for round := int64(1); round <= 5; round++ {
		for i := range keys {
			d, err := s.Decide(ctx, sluice.Request{Limit: limit, Key: sluice.StringKey(fmt.Sprint(i)), Cost: 1})
			if err != nil || !d.Allowed || d.Remaining != 5-round {
				t.Fatalf("round %d, key %d: got %+v, %v", round, i, d, err)
			}
		}
	}
	for i := range keys {
		d, _ := s.Decide(ctx, sluice.Request{Limit: limit, Key: sluice.StringKey(fmt.Sprint(i)), Cost: 1})
		if d.Allowed {
			t.Fatalf("key %d was admitted a sixth time", i)
		}
	}
	if st := s.Stats(); st.Keys != keys {
		t.Errorf("got %d keys, want %d", st.Keys, keys)
	}
	// A year later all states equal fresh ones: operations sweep them.
	now += 366 * 86400e6
	for i := range 40 * keys {
		_, _ = s.Decide(ctx, sluice.Request{Limit: limit, Key: sluice.StringKey(fmt.Sprint("new", i%8)), Cost: 1})
		if s.Stats().Keys < 100 && i%1000 == 0 {
			break
		}
	}
}

func TestConcurrentCallersGetExactlyTheLimit(t *testing.T) {
	s := newStore(t, memory.Options{Clock: func() int64 { return 1e15 }})
	limit := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 1000})
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 1000 {
				d, _ := s.Decide(context.Background(), sluice.Request{Limit: limit, Key: sluice.StringKey("k"), Cost: 1})
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 1000 {
		t.Errorf("admitted %d, want 1000", n)
	}
}
