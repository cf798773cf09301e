package sluice_test

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
)

func TestSharesAreFractions(t *testing.T) {
	for text, want := range map[string]sluice.Share{
		"1/4": {Of: 1, Parts: 4}, "2/8": {Of: 1, Parts: 4}, "0.25": {Of: 1, Parts: 4}, "25%": {Of: 1, Parts: 4},
		"1": {Of: 1, Parts: 1}, "100%": {Of: 1, Parts: 1}, "0.29": {Of: 29, Parts: 100}, "12.5%": {Of: 1, Parts: 8},
		"1/1000000": {Of: 1, Parts: 1_000_000},
	} {
		got, err := sluice.ParseShare(text)
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
		var again sluice.Share
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
		if got, err := sluice.ParseShare(text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "sluice: share ") {
			t.Errorf("%q: got %v, %v, want %q", text, got, err, want)
		}
	}
}

func TestFallbacksInWords(t *testing.T) {
	var got []string
	for f := range sluice.FallbackLocal + 2 {
		got = append(got, f.String())
	}
	if text := strings.Join(got, " "); text != "default allow deny local unknown" {
		t.Errorf("got %s", text)
	}
}

// What is read is a share that is written as it is read.
func FuzzParseShare(f *testing.F) {
	for _, text := range []string{"1/4", "0.25", "25%", "1/0", "100%%", "-1", "1e9", "9999999999999999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := sluice.ParseShare(text)
		if err != nil {
			if s != (sluice.Share{}) {
				t.Errorf("%q: %v and %v", text, s, err)
			}
			return
		}
		if again, err := sluice.ParseShare(s.String()); err != nil || again != s {
			t.Errorf("%q is %v, and that is %v, %v", text, s, again, err)
		}
		if s.Of < 1 || s.Of > s.Parts {
			t.Errorf("%q is %v", text, s)
		}
	})
}
