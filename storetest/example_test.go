package storetest_test

import (
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/storetest"
)

// The test of a store whose time can be given, and may go back.
func ExampleRun() {
	testContract := func(t *testing.T) {
		storetest.Run(t, func(t *testing.T, clock *storetest.Clock) sluice.Store {
			t.Helper()
			s, err := memory.New(memory.Options{Clock: clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		}, storetest.TimeGoesBack())
	}
	_ = testContract
}
