package translate_test

import (
	"math"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

func TestMaxWaitInMicroseconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: -1, 999: -1, time.Microsecond: 1, 1999: 1, time.Second: 1_000_000, sluice.NoWait: -1, math.MinInt64: -1,
	} {
		if got := translate.MaxWait(d); got != want {
			t.Errorf("%d ns is %d, want %d", d, got, want)
		}
	}
}

// The longest time of the arithmetic is the longest duration.
func TestLongestTimeIsTheLongestDuration(t *testing.T) {
	for micros, want := range map[int64]time.Duration{
		0: 0, 1: time.Microsecond, 60_000_000: time.Minute,
		math.MaxInt64: math.MaxInt64 / 1000 * time.Microsecond,
	} {
		if got := translate.Duration(micros); got != want {
			t.Errorf("%d µs is %v, want %v", micros, got, want)
		}
	}
}

// TestOnlyDenialsByTheLimitCount counts denials by the limit, and no others, and adds the ban that follows to the
// decision.
func TestOnlyDenialsByTheLimitCount(t *testing.T) {
	b := algo.Ban{After: 1, Within: 1_000_000, For: 60_000_000}
	for _, step := range []struct {
		name   string
		d      sluice.Decision
		counts bool
		retry  time.Duration
		reset  time.Duration
	}{
		{"allowed", sluice.Decision{Allowed: true}, false, 0, 0},
		{"no room", sluice.Decision{Reason: sluice.ReasonTableFull, RetryAfter: time.Second}, false, time.Second, 0},
		{"limited", sluice.Decision{Reason: sluice.ReasonLimited, RetryAfter: time.Second, ResetAfter: time.Hour}, true, time.Minute, time.Hour},
		{"never", sluice.Decision{Reason: sluice.ReasonNever}, true, 0, time.Minute},
	} {
		d := step.d
		state, counts := translate.Denied(&b, algo.State{}, &d, 1_000_000)
		if counts != step.counts || d.RetryAfter != step.retry || d.ResetAfter != step.reset || d.Reason != step.d.Reason {
			t.Errorf("%s: counted as a denial: %t, with the ban: %+v", step.name, counts, d)
		}
		if banned := b.Banned(state, 1_000_000) > 0; banned != step.counts {
			t.Errorf("%s: banned is %t", step.name, banned)
		}
	}
}
