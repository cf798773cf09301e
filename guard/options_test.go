package guard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/guard"
)

func TestOptions(t *testing.T) {
	mem := newMemory(t, nil)
	good, err := guard.New(guard.Options{Store: mem})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    guard.Options
		want string
	}{
		{guard.Options{}, "Store is missing"},
		{guard.Options{Store: good}, "is a guard itself"},
		{guard.Options{Store: mem, Local: good}, "is a guard itself"},
		{guard.Options{Store: mem, Share: guard.Share{Of: 2, Parts: 1}}, "Share is 2/1; give more than 0 and up to 1"},
		{guard.Options{Store: mem, Share: guard.Share{Of: 1, Parts: 2_000_000}}, "of no more than 1000000 parts"},
		{guard.Options{Store: mem, Default: 4}, "Default is 4; give Local, Allow or Deny"},
		{guard.Options{Store: mem, Default: guard.Local}, "there is no Local"},
		{guard.Options{Store: mem, Deadline: -1}, "Deadline is -1ns; give 1ms to 1m0s, or 0 for 50ms"},
		{guard.Options{Store: mem, Deadline: time.Hour}, "Deadline is 1h0m0s"},
		{guard.Options{Store: mem, Retry: time.Microsecond}, "Retry is 1µs"},
		{guard.Options{Store: mem, Slow: time.Second}, "Slow is 1s; give up to the deadline, which is 50ms"},
		{guard.Options{Store: mem, Slow: -1}, "Slow is -1ns"},
		{guard.Options{Store: mem, MaxInFlight: -1}, "MaxInFlight is -1; give 1 to 1048576, or 0 for 1024"},
		{guard.Options{Store: mem, Failures: -1}, "Failures is -1"},
		{guard.Options{Store: mem, MaxLeases: 1 << 30}, "MaxLeases is 1073741824"},
	} {
		s, err := guard.New(c.o)
		if s != nil || err == nil || !strings.HasPrefix(err.Error(), "guard: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestParseShare(t *testing.T) {
	for text, want := range map[string]guard.Share{
		"1/4": {Of: 1, Parts: 4}, "2/8": {Of: 1, Parts: 4}, "0.25": {Of: 1, Parts: 4}, "25%": {Of: 1, Parts: 4},
		"1": {Of: 1, Parts: 1}, "100%": {Of: 1, Parts: 1}, "0.29": {Of: 29, Parts: 100}, "12.5%": {Of: 1, Parts: 8},
		"1/1000000": {Of: 1, Parts: 1_000_000},
	} {
		got, err := guard.ParseShare(text)
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
		var again guard.Share
		written, err := got.MarshalText()
		if err != nil || again.UnmarshalText(written) != nil || again != got {
			t.Errorf("%q is written %s and read as %v", text, written, again)
		}
	}
	for text, want := range map[string]string{
		"": "is not a number", "x": "is not a number", "1/0": "is not a number", "1/4%": "is not a number", "1e-1": "is not a number", "0x1/0x2": "is not a number",
		"0": "give more than 0", "-1/2": "give more than 0", "5/4": "up to 1", "101%": "up to 1", "1/1000001": "of no more than 1000000 parts",
		"0.0000001": "of no more than", "0.1234567890123456789012345": "too many digits", strings.Repeat("0", 33): "is not a number",
	} {
		if got, err := guard.ParseShare(text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "guard: share ") {
			t.Errorf("%q: got %v, %v, want %q", text, got, err, want)
		}
	}
}

func TestWords(t *testing.T) {
	var got []string
	for f := guard.Default; f <= guard.Deny; f++ {
		got = append(got, f.String())
	}
	for s := guard.Closed; s <= guard.HalfOpen; s++ {
		got = append(got, s.String())
	}
	if text := strings.Join(got, " "); text != "default local allow deny closed open half-open" {
		t.Errorf("got %s", text)
	}
}

// What is read is a share that is written as it is read.
func FuzzParseShare(f *testing.F) {
	for _, text := range []string{"1/4", "0.25", "25%", "1/0", "100%%", "-1", "1e9", "9999999999999999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := guard.ParseShare(text)
		if err != nil {
			if s != (guard.Share{}) {
				t.Errorf("%q: %v and %v", text, s, err)
			}
			return
		}
		if again, err := guard.ParseShare(s.String()); err != nil || again != s {
			t.Errorf("%q is %v, and that is %v, %v", text, s, again, err)
		}
		if s.Of < 1 || s.Of > s.Parts {
			t.Errorf("%q is %v", text, s)
		}
	})
}
