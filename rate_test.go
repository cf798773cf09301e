package sluice_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// A rate is read from its text; a text that is not a rate is an error.
func TestParseRate(t *testing.T) {
	const day = 24 * time.Hour
	for _, step := range []struct {
		text   string
		count  int64
		period time.Duration
		writes string // if it is not text
	}{
		{text: "10/m", count: 10, period: time.Minute},
		{text: "20/h", count: 20, period: time.Hour},
		{text: "300/d", count: 300, period: day},
		{text: "5/s", count: 5, period: time.Second},
		{text: "1/w", count: 1, period: 7 * day},
		{text: "10/30s", count: 10, period: 30 * time.Second},
		{text: "100/300", count: 100, period: 5 * time.Minute, writes: "100/5m"},
		{text: "100/1", count: 100, period: time.Second, writes: "100/s"},
		{text: "3/250ms", count: 3, period: 250 * time.Millisecond},
		{text: "3/1500us", count: 3, period: 1500 * time.Microsecond},
		{text: "7/60s", count: 7, period: time.Minute, writes: "7/m"},
		{text: "7/7d", count: 7, period: 7 * day, writes: "7/w"},
		{text: "007/01m", count: 7, period: time.Minute, writes: "7/m"},
		{text: "9223372036854775807/s", count: math.MaxInt64, period: time.Second},
		{text: "1/36500d", count: 1, period: 36500 * day},
		{text: "1/52w", count: 1, period: 364 * day},
	} {
		r, err := sluice.ParseRate(step.text)
		if err != nil || r != sluice.Per(step.count, step.period) || r.Count() != step.count || r.Period() != step.period {
			t.Errorf("%q is %v, %v", step.text, r, err)
			continue
		}
		writes := step.writes
		if writes == "" {
			writes = step.text
		}
		if r.String() != writes {
			t.Errorf("%q is written %q, want %q", step.text, r, writes)
		}
	}
}

func TestParseRateRefuses(t *testing.T) {
	for _, text := range []string{
		"", "10m", "/m", "10/", "x/m", "10/x", "-1/m", "+1/m", "1.5/s", "0/s", "/", "//", "10//s", "10/m/s", "10/ m", " 10/m",
		"10 /m", "10/m ", "10/0s", "10/-1s", "10/+1s", "10/1.5s", "10/M", "10/ns", "10/m5", "10/5min", "1_000/s", "0x10/s", "1e3/s",
		"٣/s", "10/√s", "9223372036854775808/s", "1/36501d", "1/9223372036854775807w", "1/99999999999999999999", "10/s\x00", "∞/s", "inf/s", "NaN/s",
	} {
		r, err := sluice.ParseRate(text)
		var bad *sluice.RateError
		if !errors.As(err, &bad) || !r.IsZero() {
			t.Errorf("%q is %v, %v", text, r, err)
			continue
		}
		if bad.Text != text || bad.Problem == "" || !strings.HasPrefix(err.Error(), "sluice: rate ") || !strings.Contains(err.Error(), "100/m") {
			t.Errorf("%q: %v names no remedy", text, err)
		}
	}
}

// The short forms make the rates that they name.
func TestShortFormsMakeTheirRates(t *testing.T) {
	for _, step := range []struct {
		got, want sluice.Rate
		text      string
	}{
		{sluice.PerSecond(5), sluice.Per(5, time.Second), "5/s"},
		{sluice.PerMinute(5), sluice.Per(5, time.Minute), "5/m"},
		{sluice.PerHour(5), sluice.Per(5, time.Hour), "5/h"},
		{sluice.PerDay(5), sluice.Per(5, 24*time.Hour), "5/d"},
		{sluice.Every(time.Minute), sluice.Per(1, time.Minute), "1/m"},
		{sluice.Every(1500 * time.Microsecond), sluice.Per(1, 1500*time.Microsecond), "1/1500us"},
		// Time is counted in microseconds; shorter periods become longer ones with the same rate.
		{sluice.Every(time.Nanosecond), sluice.Per(1000, time.Microsecond), "1000/us"},
		{sluice.Every(1500 * time.Nanosecond), sluice.Per(2, 3*time.Microsecond), "2/3us"},
		{sluice.Per(7, 333*time.Nanosecond), sluice.Per(7000, 333*time.Microsecond), "7000/333us"},
		{sluice.Per(3, time.Second+time.Nanosecond), sluice.Per(3000, 1_000_000_001*time.Microsecond), "3000/1000000001us"},
	} {
		if step.got != step.want || step.got.String() != step.text {
			t.Errorf("%v, want %v, %s", step.got, step.want, step.text)
		}
		if _, err := sluice.NewLimit("", sluice.TokenBucket{Rate: step.got}); err != nil {
			t.Error(err)
		}
	}
}

// TestInvalidRates: NewLimit refuses invalid rates.
func TestInvalidRates(t *testing.T) {
	for _, r := range []sluice.Rate{
		{},
		sluice.PerSecond(0), sluice.PerSecond(-1), sluice.Per(1, 0), sluice.Per(1, -time.Second), sluice.Every(-1),
		sluice.PerSecond(math.MaxInt64), sluice.PerSecond(1<<53 + 1), sluice.Per(1, math.MaxInt64),
		sluice.Per(1, 300*24*time.Hour+1), // a thousand of these overflow
		sluice.Per(1<<50, 1500*time.Nanosecond),
	} {
		for _, a := range []sluice.Algorithm{
			sluice.TokenBucket{Rate: r},
			sluice.LeakyBucket{Rate: r},
			sluice.FixedWindow{Rate: r},
			sluice.SlidingWindow{Rate: r},
			sluice.SlidingCounter{Rate: r},
			sluice.SlidingLog{Rate: r},
		} {
			_, err := sluice.NewLimit("api", a)
			var bad *sluice.LimitError
			if !errors.As(err, &bad) || bad.Field != "Rate" || bad.Limit != "api" {
				t.Errorf("%v of %v is refused with %v", r, a, err)
			}
		}
	}
}

// A rate is read from JSON and written to it as its text.
func TestRatesAreWrittenAsTheirText(t *testing.T) {
	var read struct{ Rate sluice.Rate }
	if err := json.Unmarshal([]byte(`{"Rate":"100/m"}`), &read); err != nil || read.Rate != sluice.PerMinute(100) {
		t.Errorf("read %v, %v", read, err)
	}
	written, err := json.Marshal(read)
	if err != nil || string(written) != `{"Rate":"100/m"}` {
		t.Errorf("wrote %s, %v", written, err)
	}
	if err := json.Unmarshal([]byte(`{"Rate":"100"}`), &read); err == nil {
		t.Error("read a rate without a period")
	}
}

// FuzzParseRate: a parsed rate parses to the same rate from its text.
func FuzzParseRate(f *testing.F) {
	for _, text := range []string{"100/m", "5/s", "10/30s", "300/d", "20/h", "100/300", "1/w", "3/250ms", "9/7us", "x/m", "10/x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := sluice.ParseRate(text)
		if err != nil {
			return
		}
		if r.Count() < 1 || r.Period() < time.Microsecond {
			t.Fatalf("%q is %v", text, r)
		}
		again, err := sluice.ParseRate(r.String())
		if err != nil || again != r {
			t.Fatalf("%q is %v, which is read as %v, %v", text, r, again, err)
		}
	})
}
