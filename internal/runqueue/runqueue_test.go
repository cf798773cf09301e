package runqueue

import (
	"runtime"
	"testing"
	"time"
)

// TestLeast: only a process that waits much may move less, and at least half of the amount.
func TestLeast(t *testing.T) {
	for _, x := range []struct{ starved, want float64 }{{0, 0.98}, {0.09, 0.98}, {0.4, 0.58}, {0.5, 0.48}, {1, 0.48}} {
		if got := Least(0.02, x.starved); got < x.want-1e-9 || got > x.want+1e-9 {
			t.Errorf("starved for %v: %v, want %v", x.starved, got, x.want)
		}
	}
}

// TestStarved: threads that crowd the processors wait, and a process that only waits for time does not count as waiting.
func TestStarved(t *testing.T) {
	if runtime.GOOS != "linux" {
		if got := Waited(); got != 0 {
			t.Errorf("the process has waited %v", got)
		}
		return
	}
	crowd := func() {
		end := make(chan struct{})
		threads := runtime.GOMAXPROCS(0)
		for range threads {
			go func() {
				for began := time.Now(); time.Since(began) < 100*time.Millisecond; {
				}
				end <- struct{}{}
			}()
		}
		for range threads {
			<-end
		}
	}
	before := runtime.GOMAXPROCS(4 * runtime.NumCPU())
	defer runtime.GOMAXPROCS(before)
	if got := Starved(crowd); got < 0.5 {
		t.Errorf("four threads for each processor waited for %.0f %% of the time", 100*got)
	}
	if got := Starved(func() {}); got < 0 || got > 1 {
		t.Errorf("a function that does nothing waited for %.0f %% of the time", 100*got)
	}
}
