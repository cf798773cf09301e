// Package soak multiplies what tests repeat: by day they do enough to catch usual mistakes, and by night a multiple of
// that.
package soak

import (
	"os"
	"strconv"
	"testing"
)

// Times returns how often a test repeats something: n times by day. If the variable SLUICE_SOAK is a number, it is so
// many times n: `make nightly` and `make soak` set it. Seeds of tests count up from the same first one, so the night
// has the seeds of the day.
func Times(tb testing.TB, n int) int {
	tb.Helper()
	text := os.Getenv("SLUICE_SOAK")
	if text == "" {
		return n
	}
	factor, err := strconv.Atoi(text)
	if err != nil || factor < 1 {
		tb.Fatalf("SLUICE_SOAK is %q; want how many times as much as usual to do, as 100", text)
	}
	return n * factor
}
