package storetest_test

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/storetest"
)

// The virtual clock moves only when a test moves it.
func TestVirtualClockMovesOnlyByTests(t *testing.T) {
	c := storetest.NewClock()
	begin := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		do   func()
		want time.Time
	}{
		{func() {}, begin},
		{func() { c.Advance(time.Second + 999*time.Nanosecond) }, begin.Add(time.Second)},
		{func() { c.Advance(-2 * time.Second) }, begin.Add(-time.Second)},
		{func() { c.Set(begin.Add(time.Hour).UnixMicro()) }, begin.Add(time.Hour)},
	} {
		step.do()
		if got := c.Time(); !got.Equal(step.want) || c.Now() != step.want.UnixMicro() {
			t.Errorf("the clock says %v and %d, want %v", got, c.Now(), step.want)
		}
	}
}

// The test of a store with a replaceable clock that may go back.
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
