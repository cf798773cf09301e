package policy_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// moody is a store whose limits give the answers of a list, in each call other ones, as if other requests came in between. It charges
// and counts as stores promise: a batch charges all or nothing, and each denial that is not a peek's counts.
type moody struct {
	stub
	denies  []bool // longer when there are more requests
	used    int
	charged map[string]int           // by the names of limits
	counted map[string]int           // denials
	last    map[string]time.Duration // the wait of the last request
}

func (m *moody) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	one := make([]sluice.Decision, 1)
	err := m.DecideAll(ctx, []sluice.Request{r}, one)
	return one[0], err
}

func (m *moody) DecideAll(_ context.Context, rs []sluice.Request, out []sluice.Decision) error {
	all := true
	for i := range rs {
		out[i] = sluice.Decision{Allowed: true, Limit: 9}
		switch {
		case rs[i].Floor >= 1<<50: // all units of an allowance
			out[i].Allowed = false
		case !rs[i].Shadow:
			if m.used == len(m.denies) {
				m.denies = append(m.denies, false)
			}
			out[i].Allowed = !m.denies[m.used]
			m.used++
		}
		if !out[i].Allowed {
			out[i].Reason, all = sluice.ReasonLimited, false
		}
	}
	for i := range rs {
		r, name := &rs[i], rs[i].Limit.Name()
		m.last[name] = r.MaxWait
		switch {
		case r.Peek:
		case r.Shadow || all:
			m.charged[name]++
		case !out[i].Allowed && (r.Ban != nil && r.Ban.Terms().After > 0 || r.Limit.Params().CountsDenied()):
			m.counted[name]++
		}
	}
	return nil
}

// Whatever limits and allowances answer from call to call: a request that passes is charged once by each limit or by its allowance,
// and no denial of it counts. A request that is denied is charged nowhere, and each limit that denies it counts that once, by its own
// terms. A rule in shadow decides once. All sequences of answers are tried.
func TestAllowancesCountDenialsOnce(t *testing.T) {
	r := mayHaveAhead("r", sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(60), Burst: 1}))
	r.MaxWait, r.Ban = 10*time.Second, &sluice.Ban{After: 2, For: time.Hour}
	attempts := policy.Rule{Name: "t", Limits: []*sluice.Limit{sluice.MustLimit("", sluice.SlidingLog{Rate: sluice.PerHour(1), CountDenied: true})}}
	banning := policy.Rule{Name: "u", Limits: []*sluice.Limit{perHour(3)}, Ban: r.Ban}
	shadow := policy.Rule{Name: "shadow", Limits: []*sluice.Limit{perHour(3)}, Shadow: true}
	a := newAhead(t, r, mayHaveAhead("s", perHour(2)), attempts, banning, shadow)
	a.grant("r", "one", 1)
	a.grant("s", "one", 1)
	sequences, outcomes := 0, map[string]int{}
	var answers []bool
	for again := true; again; again = len(answers) > 0 {
		m := &moody{denies: answers, charged: map[string]int{}, counted: map[string]int{}, last: map[string]time.Duration{}}
		v := a.Decide(t.Context(), m, tenant("acme"))
		answers = m.denies
		if sequences++; m.used != len(answers) {
			t.Fatalf("answers %v: %d were read", answers, m.used)
		}
		if m.charged["shadow"] != 1 {
			t.Fatalf("answers %v: the rule in shadow decides %d times", answers, m.charged["shadow"])
		}
		for i := range v.Results {
			x := &v.Results[i]
			name, denied := x.Rule.Name, !x.Decision.Allowed
			charged, counted := m.charged[name]+m.charged[name+"/ahead/units"], m.counted[name]
			switch {
			case name == "shadow":
			case v.Allowed() && (charged != 1 || counted != 0 || denied || m.charged[name] == 1 == (x.Ahead != nil)):
				t.Fatalf("answers %v: %s passes, and %s charges %d and counts %d denials", answers, v.String(), name, charged, counted)
			case !v.Allowed() && (charged != 0 || x.Ahead != nil || name != "s" && counted == 1 != denied || counted > 1):
				t.Fatalf("answers %v: %s, and %s charges %d and counts %d denials", answers, v.String(), name, charged, counted)
			case name == "r" && denied && m.last["r"] != r.MaxWait:
				t.Fatalf("answers %v: %s denies without its wait of %v", answers, name, r.MaxWait)
			}
			if x.Ahead != nil {
				outcomes[name]++
			} else if denied {
				outcomes["no "+name]++
			}
		}
		for len(answers) > 0 && answers[len(answers)-1] {
			answers = answers[:len(answers)-1]
		}
		if len(answers) > 0 {
			answers[len(answers)-1] = true
		}
	}
	t.Logf("%d sequences of answers", sequences)
	if outcomes["r"] == 0 || outcomes["s"] == 0 || outcomes["no r"] == 0 || outcomes["no s"] == 0 || outcomes["no t"] == 0 {
		t.Errorf("%d sequences of answers have the outcomes %v; want all", sequences, outcomes)
	}
}
