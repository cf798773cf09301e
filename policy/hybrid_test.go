package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
)

func hybrid(t *testing.T, count int64, h sluice.Hybrid) *sluice.Limit {
	t.Helper()
	l, err := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(count)}).WithHybrid(h)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The limits of a policy keep their hybrid terms: the limits of rules, candidates and overrides.
func TestHybridTermsAreKept(t *testing.T) {
	terms := sluice.Hybrid{Overdraft: 3}
	exact := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerSecond(1000)})
	o := Options{Rules: []Rule{
		{
			Name: "hot", Key: []Part{ClientIP()}, Limits: []*sluice.Limit{hybrid(t, 1000, terms), exact}, Candidate: []*sluice.Limit{hybrid(t, 500, terms)},
			Overrides: []Override{
				{Key: []string{"192.0.2.1"}, Limits: []*sluice.Limit{hybrid(t, 2000, terms), exact}},
				{Key: []string{"192.0.2.2"}, Limits: []*sluice.Limit{exact, exact}}, // the numbers of the rule, without the terms
			},
		},
	}}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	got := func(p *Policy) (all []string) {
		r := p.byName["hot"]
		add := func(l *sluice.Limit) {
			text := l.Name() + " " + l.Rate().String()
			if h := l.Hybrid(); h != nil {
				text += " hybrid"
				if h.Overdraft != 3 {
					t.Errorf("%s: the terms are %+v", text, *h)
				}
			}
			all = append(all, text)
		}
		for i := range r.limits.requests {
			add(r.limits.requests[i].Limit)
		}
		for _, set := range r.overrides.Values() {
			for i := range set.requests {
				if set.requests[i].Limit.Name() == "hot" {
					add(set.requests[i].Limit)
				}
			}
		}
		slices.Sort(all)
		return all
	}
	want := []string{"hot 1000/s", "hot 1000/s hybrid", "hot 2000/s hybrid", "hot/2 1000/s", "hot/candidate/1 500/s hybrid"}
	if all := got(p); !slices.Equal(all, want) {
		t.Errorf("the limits are %q, want %q", all, want)
	}

	// A policy that replaces it has the same limits where the terms are the same, and others where they changed.
	o.Earlier = p
	same, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if l := same.Rule("hot").Limits; l[0] != p.Rule("hot").Limits[0] {
		t.Error("a limit that did not change is new")
	}
	o.Rules = slices.Clone(o.Rules)
	o.Rules[0].Limits = []*sluice.Limit{hybrid(t, 1000, sluice.Hybrid{Overdraft: 4}), exact}
	changed, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if l := changed.Rule("hot").Limits; l[0].Hybrid().Overdraft != 4 {
		t.Errorf("the changed terms are %+v", *l[0].Hybrid())
	}
	o.Rules[0].Limits = []*sluice.Limit{exact, exact}
	if changed, err = New(o); err != nil || changed.Rule("hot").Limits[0].Hybrid() != nil {
		t.Errorf("a limit without terms has terms: %v", err)
	}
}

// The limits of a rule with a ban cannot be hybrid.
func TestHybridLimitsTakeNoBan(t *testing.T) {
	for _, ban := range []*sluice.Ban{{}, {After: 5, For: 1e9}} {
		_, err := New(Options{Rules: []Rule{{Name: "hot", Key: []Part{ClientIP()}, Limits: []*sluice.Limit{hybrid(t, 1000, sluice.Hybrid{})}, Ban: ban}}})
		var bad *RuleError
		if !errors.As(err, &bad) || bad.Field != "Limits[0].Hybrid" || !strings.Contains(bad.Problem, "has a ban") {
			t.Errorf("a hybrid limit with ban %+v: %v, want an error about both", ban, err)
		}
	}
}
