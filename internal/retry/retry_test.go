package retry_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/internal/retry"
)

// Attempts are repeated after growing pauses until one succeeds.
func TestLaterRepeatsUntilDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := retry.Later{Most: 1, First: time.Second, Last: 4 * time.Second}
		began, attempts := time.Now(), []time.Duration{}
		if !l.Start(began.Add(time.Hour), func() bool {
			attempts = append(attempts, time.Since(began))
			return len(attempts) == 5
		}) {
			t.Fatal("there was no room for the first")
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if len(attempts) != 5 || l.Pending() != 0 {
			t.Fatalf("attempts after %v; %d are pending", attempts, l.Pending())
		}
		last := time.Duration(0)
		for i, seconds := range []int{1, 2, 4, 4, 4} {
			pause := time.Duration(seconds) * time.Second
			if took := attempts[i] - last; took < pause/2 || took > pause*3/2 {
				t.Errorf("attempt %d came after a pause of %v", i, took)
			}
			last = attempts[i]
		}
	})
}

// An attempt is not repeated after its time, and gives its room to another one.
func TestAttemptsEndWithTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := retry.Later{Most: 2, First: time.Second, Last: time.Second}
		var attempts atomic.Int64
		fails := func() bool { attempts.Add(1); return false }
		until := time.Now().Add(10 * time.Second)
		var started []bool
		for range 3 {
			started = append(started, l.Start(until, fails))
		}
		if want := []bool{true, true, false}; !slices.Equal(started, want) {
			t.Errorf("started %v, want %v", started, want)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if n := attempts.Load(); n < 12 || n > 42 || l.Pending() != 0 {
			t.Errorf("%d attempts; %d are pending", n, l.Pending())
		}
		if !l.Start(time.Now(), fails) {
			t.Error("there is no room when all have ended")
		}
		<-time.After(time.Minute)
		synctest.Wait()
	})
}
