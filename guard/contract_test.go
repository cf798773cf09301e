package guard_test

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/storetest"
)

// A guard over a store that works is that store.
func TestGuardKeepsTheContract(t *testing.T) { runContract(t, storetest.TimeGoesBack()) }

// TestGuardKeepsTheContractConcurrently is the part of the contract in which the race detector can find something.
func TestGuardKeepsTheContractConcurrently(t *testing.T) { runContract(t, storetest.Concurrent()) }

func runContract(t *testing.T, part storetest.Option) {
	t.Helper()
	for name, inline := range map[string]bool{"alone": false, "inline": true} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T, clock *storetest.Clock) sluice.Store {
				t.Helper()
				s, err := guard.New(guard.Options{
					Store: newMemory(t, clock.Now), Default: sluice.FallbackDeny, Inline: inline,
					Deadline: time.Minute, // nothing fails here, however slow the machine is
				})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}, storetest.Attempts(300), storetest.Percent(10), storetest.Holds(), part)
		})
	}
}

func newMemory(t *testing.T, clock func() int64) *memory.Store {
	t.Helper()
	s, err := memory.New(memory.Options{MaxBytes: 4 << 20, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
