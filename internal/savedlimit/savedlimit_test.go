package savedlimit

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// TestNumbersComeBack: the limit that is read has the text and the numbers of the limit that was written.
func TestNumbersComeBack(t *testing.T) {
	t.Parallel()
	rate := sluice.Per(100, time.Minute)
	for _, a := range []sluice.Algorithm{
		sluice.TokenBucket{Rate: rate, Burst: 7, Debt: 3},
		sluice.TokenBucket{Rate: rate, WarmUp: time.Second},
		sluice.LeakyBucket{Rate: rate, Queue: 9, Undelayed: 2},
		sluice.FixedWindow{Rate: rate, Opened: true},
		sluice.FixedWindow{Rate: rate, Calendar: sluice.CalendarMonth, Zone: time.FixedZone("here", 3600), CountDenied: true},
		sluice.SlidingWindow{Rate: rate, Cells: 5, CountDenied: true},
		sluice.SlidingCounter{Rate: rate},
		sluice.SlidingLog{Rate: rate, MinInterval: time.Second},
		sluice.Concurrency{Max: 3, Queue: 2},
	} {
		l := sluice.MustLimit("l", a)
		s := Of(l)
		text := s.Append(nil)
		for i := range text {
			if _, _, ok := Read(text[:i]); ok {
				t.Errorf("%v: %d of %d bytes can be read", l, i, len(text))
			}
		}
		read, rest, ok := Read(append(text, "more"...))
		if !ok || string(rest) != "more" {
			t.Fatalf("%v: %t, rest %q", l, ok, rest)
		}
		got, err := read.Limit("l")
		if err != nil || got.String() != l.String() || !got.Params().Equal(l.Params()) {
			t.Errorf("%v is read as %v, %v", l, got, err)
		}
	}
}

// TestLimitsBeyondAnInt: an int of 32 bits cuts off no part of a number of cells.
func TestLimitsBeyondAnInt(t *testing.T) {
	t.Parallel()
	s := Of(sluice.MustLimit("l", sluice.SlidingWindow{Rate: sluice.PerDay(10), Cells: 10}))
	if l, err := s.Limit("l"); err != nil || l.Name() != "l" {
		t.Fatalf("a window of 10 cells is read as %v, %v; want it as it was", l, err)
	}
	s.numbers[0] += 1 << 32
	if l, err := s.Limit("l"); err == nil {
		t.Errorf("a window of %d cells is %v, %v", s.numbers[0], l, err)
	}
}
