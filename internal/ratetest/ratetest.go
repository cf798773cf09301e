// Package ratetest measures rates of bytes by the real clock, for the tests of several rooms. Tests in virtual time prove
// that the rates are exact. These show the same by the system's clock, on a machine that does nothing else.
package ratetest

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"
)

const (
	// tries is how often other work of the machine may disturb a measurement.
	tries = 8
	// most is the largest part of a rate that may move, however busy the machine is: it only delays bytes. The bytes of
	// a pause may follow it, up to the burst.
	most = 1.06
	// burst is how long the burst of a flow is skipped: it is 3 % of a second.
	burst = 100 * time.Millisecond
)

// Span returns how long a rate is measured after the burst: a second, or 5 s if SLUICE_SOAK is set.
func Span() time.Duration {
	if os.Getenv("SLUICE_SOAK") != "" {
		return 5 * time.Second
	}
	return time.Second
}

// Measure moves bytes for a while, and returns how many moved in a second after the burst.
func Measure(move func() (int, error)) (rate float64, err error) {
	began, sum, skipped := time.Now(), 0, false
	for time.Since(began) < Span() {
		n, err := move()
		if err != nil {
			return 0, err
		}
		if sum += n; !skipped && time.Since(began) >= burst {
			began, sum, skipped = time.Now(), 0, true
		}
	}
	return float64(sum) / time.Since(began).Seconds(), nil
}

// Within fails the test unless one of some measurements is within 2 % of a rate. No measurement may be more than the rate.
func Within(t *testing.T, rate float64, measure func(try int) float64) {
	t.Helper()
	var seen []string
	for try := range tries {
		ratio := measure(try) / rate
		seen = append(seen, fmt.Sprintf("%.2f %%", 100*ratio))
		switch {
		case ratio > most:
			t.Fatalf("bytes move faster than the rate: %v", seen)
		case math.Abs(ratio-1) <= 0.02:
			t.Logf("share of the rate: %v", seen)
			return
		}
	}
	t.Errorf("no measurement is within 2 %% of the rate: %v", seen)
}
