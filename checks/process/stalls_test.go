package process

import (
	"testing"
	"testing/synctest"
	"time"
)

// Stalls are what a tick is late, also before it comes, and no time in which ticks are punctual.
func TestStallsAreTheTimeWithoutTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := MeasureStalls(t)
		<-time.After(time.Minute)
		if got := s.Total(); got != 0 {
			t.Errorf("a process whose ticks were punctual was stalled for %v, want 0", got)
		}
		s.last.Add(-int64(time.Second)) // the next tick comes late
		if got := s.Total(); got < 900*time.Millisecond || got > time.Second {
			t.Errorf("while a tick is a second late, the stalls are %v", got)
		}
		<-time.After(time.Minute)
		if got := s.Total(); got != time.Second {
			t.Errorf("after a tick that was a second late, the stalls are %v", got)
		}
	})
}
