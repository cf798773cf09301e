package reader

import (
	"testing"
	"time"
)

// A duration may have weeks and days; anything that is not exact is an error.
func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1d": 24 * time.Hour, "1w": 168 * time.Hour, "2w3d4h5m6s": (14*24+3*24+4)*time.Hour + 5*time.Minute + 6*time.Second, "1h1d": 25 * time.Hour,
		"0": 0, "0d": 0, "+1d": 24 * time.Hour, "-1d12h": -36 * time.Hour, "1d0.5s": 24*time.Hour + 500*time.Millisecond, "106751d": 106751 * 24 * time.Hour,
		"106751d23h47m16.854775807s": 1<<63 - 1, "90s": 90 * time.Second, "1.5h": 90 * time.Minute, "1d1w": 192 * time.Hour,
	} {
		if got, ok := ParseDuration(text); got != want || !ok {
			t.Errorf("%q is %v, %v; want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "d", "1.5d", "0.1w", "1d-1h", "--1d", "+-1d", "1 d", "1D", "1day", "106752d", "15251w", "106751d24h", "99999999999999999999d", "1d1", "1d0", "d1", ".5d", "1.d", "-", "+",
	} {
		if got, ok := ParseDuration(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}
