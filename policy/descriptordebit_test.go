package policy_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/policy"
)

// debited returns a rule whose limit is debited.
func debited(name string, n int64, entries ...string) policy.Rule {
	r := described(name, n, entries...)
	r.Match.Descriptor.Debit = true
	return r
}

// look is a descriptor of 0 hits.
func look(texts ...string) descriptors.Request {
	return descriptors.Request{Entries: entries(texts...), Look: true}
}

// TestDescriptorsWithDebitsAreCharged makes calls in steps, whose descriptors are always charged.
func TestDescriptorsWithDebitsAreCharged(t *testing.T) {
	shadow, quotaA, quotaB := debited("shadow", 2, "shadow"), debited("qa", 1, "qa"), debited("qb", 2, "qb")
	shadow.Shadow, quotaA.Match.Descriptor.Quota, quotaB.Match.Descriptor.Quota = true, true, true
	blocked := described("blocked", 0, "blocked")
	blocked.Always = true
	degrade := debited("degrade", 1, "degrade")
	degrade.WhenLimited.Action = policy.Degrade
	candidate := debited("tried", 100, "tried")
	candidate.Candidate = []*sluice.Limit{sluice.MustLimit("", sluice.LeakyBucket{Rate: sluice.PerSecond(1)})}
	d, now := describing(t, policy.Options{Rules: []policy.Rule{
		debited("tokens", 100, "tokens"), debited("user", 5, "user"), described("plain", 5, "plain"), shadow, quotaA, quotaB, blocked, degrade, candidate,
	}})
	limited := func(n int64, text string) descriptors.Request {
		rate := sluice.PerMinute(n)
		return descriptors.Request{Entries: entries(text), Cost: 3, Limit: &rate}
	}
	refund := hits(4, "user=d")
	refund.Refund = true
	for i, step := range []struct {
		call []descriptors.Request
		want string
	}{
		// Work whose cost is known afterwards: look, then charge.
		{[]descriptors.Request{look("tokens=a")}, "ok OK/100"},
		{[]descriptors.Request{hits(40, "tokens=a")}, "ok OK/60"},
		{[]descriptors.Request{look("tokens=a")}, "ok OK/60"},
		{[]descriptors.Request{hits(40, "tokens=a")}, "ok OK/20"},
		{[]descriptors.Request{look("tokens=a")}, "ok OK/20"},
		{[]descriptors.Request{hits(40, "tokens=a")}, "no OVER/0"}, // and is charged
		{[]descriptors.Request{look("tokens=a")}, "no OVER/0"},
		{[]descriptors.Request{hits(100, "tokens=b")}, "ok OK/0"},
		{[]descriptors.Request{look("tokens=b")}, "ok OK/0"}, // exactly at the limit
		{[]descriptors.Request{hits(1, "tokens=b")}, "no OVER/0"},
		{[]descriptors.Request{look("tokens=b")}, "no OVER/0"},
		{[]descriptors.Request{hits(math.MaxInt64, "tokens=c")}, "no OVER/0"},
		{[]descriptors.Request{hits(math.MaxInt64, "tokens=c")}, "no OVER/0"},
		// Several descriptors: each is charged, whatever the others decide.
		{[]descriptors.Request{hits(6, "user=a"), hits(1, "user=b"), hits(1, "plain=b")}, "no OVER/0 OK/4 OK/5"},
		{[]descriptors.Request{look("user=a"), look("user=b"), look("plain=b")}, "no OVER/0 OK/4 OK/5"},
		{[]descriptors.Request{hits(9, "plain=a"), hits(1, "user=b")}, "no OVER/5 OK/3"}, // denied by a rule that is not debited
		{[]descriptors.Request{hits(1, "blocked=a"), hits(1, "user=b")}, "no OVER/0 OK/2"},
		{[]descriptors.Request{hits(1, "user=c"), hits(1, "user=c"), hits(4, "user=c")}, "no OK/4 OK/3 OVER/0"},
		// Rules in shadow, and quotas.
		{[]descriptors.Request{hits(3, "shadow=a")}, "ok OK/0"},
		{[]descriptors.Request{hits(2, "qa=x"), hits(1, "qb=x")}, "ok OVER/0 OK/1"},
		{[]descriptors.Request{hits(1, "qa=x"), hits(2, "qb=x")}, "no OVER/0 OVER/0"},
		{[]descriptors.Request{look("qb=x")}, "no OVER/0"}, // the charge of a refused call stays
		{[]descriptors.Request{hits(2, "qa=x"), hits(1, "user=e")}, "no OVER/0 OK/4"},
		{[]descriptors.Request{look("user=e")}, "ok OK/4"},
		{[]descriptors.Request{hits(1, "degrade=a"), hits(9, "user=f")}, "no OK/0 OVER/0"},
		{[]descriptors.Request{look("degrade=a")}, "ok OK/0"},
		// A limit that comes with the call.
		{[]descriptors.Request{limited(5, "user=a")}, "ok OK/2"},
		{[]descriptors.Request{limited(5, "user=a")}, "no OVER/0"},
		{[]descriptors.Request{limited(7, "user=a")}, "no OVER/0"}, // nine
		{[]descriptors.Request{limited(12, "user=a")}, "ok OK/0"},  // twelve
		// A refund pays a debt first.
		{[]descriptors.Request{hits(8, "user=d")}, "no OVER/0"},
		{[]descriptors.Request{refund}, "ok OK/1"},
		{[]descriptors.Request{hits(50, "tried=a")}, "ok OK/50"},
	} {
		v := d.DecideDescriptors(t.Context(), "d", step.call)
		if got := statuses(&v); got != step.want || v.Err != nil {
			t.Errorf("step %d: %s, want %s; %v", i, got, step.want, v.Err)
		}
	}
	*now = now.Add(time.Minute)
	if v := d.DecideDescriptors(t.Context(), "d", []descriptors.Request{look("tokens=c"), hits(5, "user=a")}); statuses(&v) != "ok OK/100 OK/0" {
		t.Errorf("in the next window: %s", statuses(&v))
	}
}

// TestDebitsNeedLimitsThatOwe checks which limits a rule that debits may have.
func TestDebitsNeedLimitsThatOwe(t *testing.T) {
	leaky := debited("leaky", 0, "k")
	leaky.Limits = []*sluice.Limit{sluice.MustLimit("", sluice.LeakyBucket{Rate: sluice.PerSecond(1)})}
	if _, err := policy.New(policy.Options{Rules: []policy.Rule{leaky}}); err == nil || !strings.Contains(err.Error(), "Match.Descriptor.Debit is set") {
		t.Error(err)
	}
}

// TestDebitsEqualCounters compares calls at random with plain counters, as Envoy's rate limit service has them.
func TestDebitsEqualCounters(t *testing.T) {
	const values = 3
	rng := rand.New(rand.NewPCG(7, 7))
	for round := range 60 {
		type limit struct {
			count         int64
			shadow, quota bool
		}
		var rules []policy.Rule
		var limits []limit
		for i := range 1 + rng.IntN(4) {
			l := limit{1 + rng.Int64N(20), rng.IntN(5) == 0, rng.IntN(3) == 0}
			r := debited(fmt.Sprint("r", i), l.count, fmt.Sprint("k", i))
			r.Shadow, r.Match.Descriptor.Quota = l.shadow, l.quota
			rules, limits = append(rules, r), append(limits, l)
		}
		d, now := describing(t, policy.Options{Rules: rules})
		used := map[string]int64{}
		for step := range 200 {
			if rng.IntN(40) == 0 {
				*now = now.Add(time.Minute)
				maps.DeleteFunc(used, func(key string, _ int64) bool { return !strings.HasPrefix(key, "own ") })
			}
			var q []descriptors.Request
			var want []string
			refused, quotas, over := false, 0, 0
			seen := map[string]bool{}
			for range 1 + rng.IntN(3) {
				i := rng.IntN(len(limits))
				l, key := limits[i], fmt.Sprintf("k%d=%d", i, rng.IntN(values))
				r := hits(rng.Int64N(9), key)
				if rng.IntN(20) == 0 {
					r.Cost = math.MaxInt64 / 8
				}
				if rng.IntN(6) == 0 { // a limit of the call's own, with a counter of its own
					rate := sluice.PerHour(rng.Int64N(20) + 1)
					r.Limit, l, key = &rate, limit{count: rate.Count()}, "own "+key
				}
				if seen[key] {
					continue // a look sees the hits of the whole call
				}
				seen[key] = true
				if r.Cost == 0 {
					r.Look = true
				}
				q = append(q, r)
				used[key] = min(used[key]+r.Cost, math.MaxInt64/4)
				exceeded := used[key] > l.count
				text := fmt.Sprintf("OK/%d", max(0, l.count-used[key]))
				if exceeded && !l.shadow {
					text = "OVER/0"
				}
				want = append(want, text)
				refused = refused || exceeded && !l.shadow && !l.quota
				if l.quota {
					if quotas++; exceeded && !l.shadow {
						over++
					}
				}
			}
			text := "ok "
			if refused || quotas > 0 && over == quotas {
				text = "no "
			}
			v := d.DecideDescriptors(t.Context(), "d", q)
			if got := statuses(&v); got != text+strings.Join(want, " ") {
				t.Fatalf("round %d, step %d: %s, want %s%s of %+v", round, step, got, text, strings.Join(want, " "), q)
			}
		}
	}
}
