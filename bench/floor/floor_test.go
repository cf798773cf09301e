package floor

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// An entry of the floor takes as little memory as the comparison says.
func TestFloorEntriesHaveTheComparedSize(t *testing.T) {
	if got := unsafe.Sizeof(entry{}); got != 16 {
		t.Errorf("an entry has %d bytes, want 16", got)
	}
	if got := unsafe.Sizeof(record{}); got != 32 {
		t.Errorf("a record has %d bytes, want 32", got)
	}
	for _, c := range []struct{ least, want int }{{0, 4}, {4, 4}, {5, 8}, {1000, 1024}} {
		if got := NewTable(c.least, 1).Len(); got != c.want {
			t.Errorf("a table of %d entries has %d, want %d", c.least, got, c.want)
		}
	}
	table, decision := NewTable(1024, 1), NewDecision(1024, time.Hour, 1)
	if got := table.Bytes(); got != 16<<10 {
		t.Errorf("1024 entries occupy %d bytes", got)
	}
	if got := decision.Bytes(); got != 32<<10 || decision.Len() != 1024 {
		t.Errorf("%d records occupy %d bytes", decision.Len(), got)
	}
}

type taker interface{ Take(key string) bool }

func floors(entries, burst int) map[string]taker {
	return map[string]taker{
		"table":    NewTable(entries, uint64(burst)),
		"decision": NewDecision(entries, time.Hour, burst),
	}
}

// TestExactCounts takes more than the burst of many keys, from several goroutines at once, while new keys
// are claimed. Each key gets exactly its burst.
func TestExactCounts(t *testing.T) {
	const keys, burst, goroutines = 3000, 5, 8
	for name, f := range floors(2*keys, burst) {
		t.Run(name, func(t *testing.T) {
			admitted := make([]atomic.Int64, keys)
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					for range burst {
						for i := range keys {
							k := (i + g*keys/goroutines) % keys
							if f.Take(fmt.Sprint("key-", k)) {
								admitted[k].Add(1)
							}
						}
					}
				})
			}
			wg.Wait()
			for k := range admitted {
				if got := admitted[k].Load(); got != burst {
					t.Fatalf("key %d was admitted %d times, want %d", k, got, burst)
				}
			}
		})
	}
}

func TestOneHotKey(t *testing.T) {
	const burst, goroutines, attempts = 10_000, 8, 5_000
	for name, f := range floors(4, burst) {
		t.Run(name, func(t *testing.T) {
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for range attempts {
						if f.Take("hot") {
							admitted.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if got := admitted.Load(); got != burst {
				t.Errorf("admitted %d, want %d", got, burst)
			}
		})
	}
}

// TestFullTableDeniesNewKeys checks that a full table denies new keys and keeps the others.
func TestFullTableDeniesNewKeys(t *testing.T) {
	for name, f := range floors(8, 1000) {
		t.Run(name, func(t *testing.T) {
			for i := range 8 {
				if !f.Take(fmt.Sprint("key-", i)) {
					t.Errorf("key %d was denied a free entry", i)
				}
			}
			if f.Take("one more") {
				t.Error("a table of eight entries has a ninth key")
			}
			for i := range 8 {
				if !f.Take(fmt.Sprint("key-", i)) {
					t.Errorf("key %d was lost", i)
				}
			}
		})
	}
}

// The floor of one decision denies an empty bucket, and refills it with time.
func TestDecisionRefills(t *testing.T) {
	const every = 10
	d := NewDecision(4, every, 3)
	for i, step := range []struct {
		now  int64
		want bool
	}{
		{100, true},
		{100, true},
		{100, true},
		{100, false},
		{109, false},
		{110, true},
		{110, false},
		{90, false}, // a clock that goes back mints nothing
		{129, true},
		{129, false},
		{130, true},
		{130, false},
		{1000, true}, // never more than the burst
		{1000, true},
		{1000, true},
		{1000, false},
	} {
		if got := d.takeAt(step.now, "k"); got != step.want {
			t.Errorf("step %d: at %d: got %t, want %t", i, step.now, got, step.want)
		}
	}
}

// A decision of a floor allocates nothing.
func TestNoAllocations(t *testing.T) {
	for name, f := range floors(1024, 1_000_000) {
		if got := testing.AllocsPerRun(1000, func() { f.Take("some-key-of-17-by") }); got != 0 {
			t.Errorf("%s: %v allocations per decision", name, got)
		}
	}
}
