package reader

import (
	"math"
	"testing"
)

func TestSharesInFiles(t *testing.T) {
	for text, want := range map[string]Share{
		"1": {1, 1}, "1/4": {1, 4}, "2/8": {1, 4}, "25%": {1, 4}, "0.25": {1, 4}, ".5": {1, 2},
		"100%": {1, 1}, "33.3%": {333, 1000}, "1.0": {1, 1}, "1/1000000": {1, 1_000_000},
	} {
		if got, problem, _ := parseShare(text); got != want || problem != "" {
			t.Errorf("parseShare(%q) = %v, %q; want %v", text, got, problem, want)
		}
	}
	for _, text := range []string{
		"", "%", "/", "1/0", "0/1", "0", "0%", "101%", "1/4%", "-1/4", "+1/4", "1e-1", "0x1", "1/0x4", "1_0/20", " 1/4", "1/ 4", "1/1000001",
		"0.0000001", "a", "Inf", "NaN", "1/2/3", "0b1", "0o1", "1p-1", "1/99999999999999999999999999999", "0.333333333333333333333333333333333333",
	} {
		if got, problem, _ := parseShare(text); problem == "" || got != (Share{}) {
			t.Errorf("parseShare(%q) = %v, and want a problem", text, got)
		}
	}
	if got := (Share{1, 4}).String(); got != "1/4" {
		t.Errorf("String = %s", got)
	}
}

// A size beyond an int becomes the largest int, and never a negative one.
func TestLargeSizes(t *testing.T) {
	if huge := Size(1 << 40); int64(huge.Int()) != int64(min(huge, math.MaxInt)) {
		t.Errorf("%v is %d as an int", huge, huge.Int())
	}
}
