package live

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// TestTrialsEqualTheirOracle compares what is counted about candidates with sums over the same verdicts, for rules with up to two limits and two
// candidates beside other rules: also after the window has turned, and after the candidate has changed. So are the requests that only the
// candidate denies.
func TestTrialsEqualTheirOracle(t *testing.T) {
	type tried struct {
		key       string
		candidate *sluice.Limit
	}
	limit := sluice.MustLimit("r", sluice.TokenBucket{Rate: sluice.PerMinute(5)})
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 28))
		now := time.Unix(1e9, 0)
		d := clocked(&now)
		var rule *policy.Rule
		denied, want := map[string]bool{}, map[tried]Trial{}
		var last *sluice.Limit // of the last candidate that was the only one to deny a request
		newly := map[string]uint64{}
		for i := range 300 {
			if i%100 == 0 { // a reload with another candidate, or with none
				rule = &policy.Rule{Name: "r"}
				for n := range r.IntN(3) {
					rule.Candidate = append(rule.Candidate, sluice.MustLimit(fmt.Sprint("r/candidate/", i, n), sluice.TokenBucket{Rate: sluice.PerMinute(9)}))
				}
			}
			now = now.Add(time.Duration(r.Int64N(int64(10 * time.Second)))) // the window turns at most once
			key := fmt.Sprint("key-", r.IntN(5))
			v, counts, refused, would := new(policy.Verdict), true, false, false
			result := func(own *policy.Rule, role policy.Role) *policy.LimitResult {
				v.Results = append(v.Results, policy.LimitResult{Rule: own, Role: role, Request: sluice.Request{Limit: limit, Key: sluice.StringKey(key), Cost: 1}})
				m := &v.Results[len(v.Results)-1]
				m.Decision.Allowed = r.IntN(2) == 0
				return m
			}
			other := &policy.Rule{Name: "other"}
			for range r.IntN(2) {
				result(other, policy.RoleEnforced)
			}
			for range 1 + r.IntN(2) {
				m := result(rule, policy.Role(r.IntN(3)))
				refused = refused || !m.Decision.Allowed
				switch r.IntN(8) {
				case 0:
					m.From, counts = policy.FromPlan+policy.NumbersFrom(r.IntN(3)), false
				case 1:
					m.Decision.Degraded, counts = true, false
				case 2:
					m.Decision.Allowed, m.Decision.Reason, counts, refused = false, sluice.ReasonBanned, false, true
				}
			}
			for range rule.Candidate {
				would = !result(rule, policy.RoleCandidate).Decision.Allowed || would
			}
			for range r.IntN(2) {
				result(other, policy.RoleEnforced)
			}
			d.Observe(v)

			if refused {
				denied[key] = true
			}
			if !counts || len(rule.Candidate) == 0 {
				continue
			}
			id := tried{key, rule.Candidate[0]}
			sum := want[id]
			if refused {
				sum.Compared++
			}
			if would && denied[key] {
				sum.WouldDeny++
			}
			want[id] = sum
			if would && !refused {
				if last != rule.Candidate[0] {
					last, newly = rule.Candidate[0], map[string]uint64{}
				}
				newly[key]++
			}
		}
		tries, _ := d.Newly.Most("r", 100)
		if len(tries) != len(newly) {
			t.Errorf("seed %d: only the candidate denies %d keys, want %d", seed, len(tries), len(newly))
		}
		for _, k := range tries {
			if n := newly[k.Key.Text()]; k.Denials != n || k.Error != 0 || k.Candidate[0] != last || k.Role != policy.RoleCandidate {
				t.Errorf("seed %d: only the candidate denies %d requests of key %s, want %d: %+v", seed, k.Denials, k.Key.Text(), n, k)
			}
		}
		keys, _ := d.Most("r", 100)
		if len(keys) != len(denied) {
			t.Fatalf("seed %d: %d keys are listed, want %d", seed, len(keys), len(denied))
		}
		for _, k := range keys {
			if len(k.Candidate) == 0 {
				if k.Compared+k.WouldDeny > 0 {
					t.Errorf("seed %d: key %s has %+v of no candidate", seed, k.Key.Text(), k.Trial)
				}
				continue
			}
			if w := want[tried{k.Key.Text(), k.Candidate[0]}]; k.Compared != w.Compared || k.WouldDeny != w.WouldDeny {
				t.Errorf("seed %d: key %s was compared %d times, and its candidate would deny %d; want %d and %d", seed, k.Key.Text(), k.Compared, k.WouldDeny, w.Compared, w.WouldDeny)
			}
		}
	}
}

// A key that takes the counter of another key takes none of its numbers.
func TestTrialsOfAnotherKeyAreForgotten(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := clocked(&now)
	d.most = 1
	rule := &policy.Rule{Name: "r", Candidate: []*sluice.Limit{sluice.MustLimit("r/candidate/1", sluice.TokenBucket{Rate: sluice.PerMinute(9)})}}
	for _, key := range []string{"ann", "ann", "bob"} {
		v := deny("r", policy.RoleEnforced, key, key)
		v.Results[0].Rule, v.Results[1].Rule, v.Results[1].Role = rule, rule, policy.RoleCandidate
		d.Observe(v)
	}
	keys, _ := d.Most("r", 9)
	if len(keys) != 1 || keys[0].Key.Text() != "bob" || keys[0].Denials != 3 || keys[0].Compared != 1 || keys[0].WouldDeny != 1 {
		t.Errorf("the key that took a counter is %+v, want one comparison", keys)
	}
}
