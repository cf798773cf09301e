package live

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// TestDenialsAreBracketed compares the counters with exact counts, for many streams of denials: each exact count is between
// Denials-Error and Denials; each key with more than one of 512 denials of a window is listed; and no denial is lost. The same holds for
// requests that only a candidate denies, and they do not count as denials.
func TestDenialsAreBracketed(t *testing.T) {
	rule := &policy.Rule{Name: "rule", Candidate: []*sluice.Limit{sluice.MustLimit("rule/candidate/1", sluice.TokenBucket{Rate: sluice.PerMinute(9)})}}
	for seed := range uint64(8) {
		tried := seed%2 == 1
		r := rand.New(rand.NewPCG(seed, 28))
		now := time.Unix(1e9, 0)
		began := now // of the window
		d := clocked(&now)
		counts := d
		if tried {
			counts = d.Newly
		}
		zipf := rand.NewZipf(r, 1+r.Float64(), 1, uint64(1+r.IntN(20_000)))
		pause := time.Duration(r.Int64N(int64(time.Second)))
		var exact [2]map[string]uint64 // of the window before, and of this one
		exact[0], exact[1] = map[string]uint64{}, map[string]uint64{}
		for i := range 6000 {
			key := fmt.Sprint(zipf.Uint64())
			if r.IntN(3) == 0 {
				key = fmt.Sprint("flood-", i)
			}
			if i > 0 {
				now = now.Add(pause)
			}
			if now.Sub(began) >= window {
				exact[0], exact[1], began = exact[1], map[string]uint64{}, began.Add(window)
			}
			v := deny("rule", policy.RoleEnforced, key)
			if tried {
				v = deny("rule", policy.RoleEnforced, key, key)
				v.Action, v.Results[0].Decision.Allowed, v.Results[1].Role = policy.Allow, true, policy.RoleCandidate
				v.Results[0].Rule, v.Results[1].Rule = rule, rule
			}
			d.Observe(v)
			exact[1][key]++
			if i%1500 != 1499 {
				continue
			}
			keys, more := counts.Most("rule", 1<<20)
			if more {
				t.Fatal("a list without a bound lacks keys")
			}
			listed := map[string]bool{}
			for _, k := range keys {
				name := k.Key.Text()
				listed[name] = true
				if n := exact[0][name] + exact[1][name]; n > k.Denials || n < k.Denials-k.Error {
					t.Fatalf("seed %d, after %d denials: key %s has %d denials, and %d with error %d are listed", seed, i+1, name, n, k.Denials, k.Error)
				}
			}
			for w, counted := range []*counters{&(*counts.rules.Load())["rule"].early, &(*counts.rules.Load())["rule"].now} {
				var all, sum uint64
				for _, n := range exact[w] {
					all += n
				}
				for _, c := range counted.least {
					sum += c.Denials
				}
				if sum != all {
					t.Fatalf("seed %d, after %d denials: the counters of window %d have %d of %d denials", seed, i+1, w, sum, all)
				}
				for name, n := range exact[w] {
					if n > all/mostCounters && !listed[name] {
						t.Fatalf("seed %d, after %d denials: key %s with %d of %d denials of window %d is not listed", seed, i+1, name, n, all, w)
					}
				}
			}
		}
		if keys, _ := d.Most("rule", 1); tried && len(keys) > 0 {
			t.Errorf("seed %d: a request that only a candidate denies counts as a denial: %+v", seed, keys)
		}
	}
}
