package soak

import "testing"

// Without the variable, tests do what a day needs.
func TestNightsMultiplyWhatDaysRepeat(t *testing.T) {
	for text, want := range map[string]int{"": 30, "1": 30, "16": 480} {
		t.Setenv("SLUICE_SOAK", text)
		if got := Times(t, 30); got != want {
			t.Errorf("with %q, a test repeats 30 times %d times, want %d", text, got, want)
		}
	}
}
