package live

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// allow returns a verdict that allows the requests of a key by two limits of a rule.
func allow(key string) *policy.Verdict {
	v := deny("rule", policy.RoleEnforced, key, key)
	v.Action = policy.Allow
	for i := range v.Results {
		v.Results[i].Decision.Allowed = true
	}
	return v
}

// TestAllowedKeysAreEstimated: the numbers of keys are estimated from a random sample, also of a client that sends in turns with others to
// avoid every 256th request. Estimates are right within five standard deviations, and usually within the two that are reported.
func TestAllowedKeysAreEstimated(t *testing.T) {
	a := NewAllowedKeys(func(k sluice.Key) string { return k.Text() })
	heavy, light := allow("heavy"), allow("light")
	const n = Sampled * 10_000
	exact := map[string]float64{}
	for i := range n {
		v := heavy
		if i%Sampled == 0 {
			v = light
		}
		a.Observe(v)
		exact[v.Results[0].Request.Key.Text()]++
	}
	keys, _ := a.Summary("rule", 10)
	if len(keys) != 2 {
		t.Fatalf("the sample has the keys %+v", keys)
	}
	for _, k := range keys {
		requests, within := Estimate(k.Denials, k.Error)
		name := k.Key.Text()
		if off, five := math.Abs(float64(requests)-exact[name]), 5*Sampled*math.Sqrt(exact[name]/Sampled); off > five || float64(within) > five {
			t.Errorf("key %s has %v requests, and %d ± %d are estimated", name, exact[name], requests, within)
		}
	}
	if requests, within := Estimate(0, 0); requests != 0 || within != 0 {
		t.Errorf("without requests, %d ± %d are estimated", requests, within)
	}
	if requests, within := Estimate(100, 3); requests != 25_600 || within < 3*256+5100 || within > 3*256+5121 {
		t.Errorf("100 sampled requests, of which 3 may be of others, are estimated as %d ± %d", requests, within)
	}
}

// Only requests that pass are in the sample, and memory is bounded.
func TestAllowedKeysAreBounded(t *testing.T) {
	a := NewAllowedKeys(func(k sluice.Key) string { return k.Text() })
	denied := deny("rule", policy.RoleEnforced, "denied")
	candidate := allow("candidate")
	candidate.Results = candidate.Results[:1]
	candidate.Results[0].Role = policy.RoleCandidate
	for range 10 {
		a.count(denied)
		a.count(candidate)
	}
	if keys, _ := a.Summary("", 10); len(keys) > 0 {
		t.Errorf("requests that did not pass are counted: %+v", keys)
	}
	for i := range 10_000 {
		a.count(allow(fmt.Sprint(i)))
	}
	if keys, _ := a.Summary("rule", 2*mostAllowed); len(keys) != mostAllowed {
		t.Errorf("%d keys are kept, want %d", len(keys), mostAllowed)
	}
	keys, missed := a.Summary("rule", 10)
	if len(keys) != 10 || missed["rule"] < 10_000/mostAllowed {
		t.Errorf("10 of the keys are %+v, and another one may have %v", keys, missed)
	}
}

// BenchmarkAllowedKeys measures what the sample costs an allowed request.
func BenchmarkAllowedKeys(b *testing.B) {
	for _, keys := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			a := NewAllowedKeys(func(sluice.Key) string { return "" })
			verdicts := make([]*policy.Verdict, keys)
			for i := range verdicts {
				verdicts[i] = allow(fmt.Sprint("key-", i))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				a.Observe(verdicts[i%keys])
			}
		})
	}
}
