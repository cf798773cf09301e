package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/memory"
)

// The rates of a domain are bounded, and a rate is forgotten only when the states under it are fresh.
func TestRatesOfADomainAreForgotten(t *testing.T) {
	p, err := New(Options{Domains: []string{"d"}})
	if err != nil {
		t.Fatal(err)
	}
	o, now := p.domains["d"].overrides, int64(0)
	o.most, o.now = 2, func() int64 { return now }
	known := map[sluice.Rate]*rule{}
	for i, c := range []struct {
		now  int64
		rate sluice.Rate
		want string
	}{
		{0, sluice.PerMinute(1), "made"},
		{0, sluice.PerHour(1), "made"},
		{0, sluice.PerMinute(2), "refused"},
		{30, sluice.PerMinute(1), "known"},
		{62, sluice.PerMinute(2), "refused"}, // the first was used half a minute ago
		{40, sluice.PerMinute(2), "refused"}, // the clock was set back
		{92, sluice.PerMinute(2), "refused"},
		{93, sluice.PerMinute(2), "made"},
		{93, sluice.PerMinute(1), "refused"},
		{3600, sluice.PerHour(1), "known"},
		{3600, sluice.PerMinute(1), "made"},
		{3600, sluice.PerMinute(2), "refused"},
	} {
		now = c.now
		got := "made"
		r, err := o.rule(c.rate)
		switch {
		case err != nil:
			got = "refused"
		case r == known[c.rate]:
			got = "known"
		}
		if known[c.rate] = r; got != c.want {
			t.Errorf("step %d: the limit is %s, want %s: %v", i, got, c.want, err)
		}
	}
}

// A flood of descriptors with limits of their own leaves a bounded number of limits in the store, and ends in an error.
func TestFloodOfRates(t *testing.T) {
	store, err := memory.New(memory.Options{MaxBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Domains: []string{"d"}})
	if err != nil {
		t.Fatal(err)
	}
	decide := func(key string, rate sluice.Rate) error {
		v := p.DecideDescriptors(t.Context(), store, "d", []descriptors.Request{{Entries: []descriptors.Entry{{Key: "k", Value: key}}, Cost: 1, Limit: &rate}})
		return v.Refused
	}
	const calls = 2 * maxOverrides
	refused := 0
	for i := range calls {
		if decide(fmt.Sprint(i), sluice.Per(int64(i+1), 24*time.Hour)) != nil {
			refused++
		}
	}
	if want := calls - maxOverrides; refused != want {
		t.Errorf("%d rates are refused, want %d", refused, want)
	}
	if n := store.Stats().Limits; n > maxOverrides {
		t.Errorf("the store has %d limits", n)
	}
	if err := decide("1", sluice.Per(1, 24*time.Hour)); err != nil {
		t.Errorf("a rate in use: %v", err)
	}
}
