package policy_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// perDay returns a limit of n units. None comes back during a test.
func perDay(n int64) []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(n)})}
}

// global returns a rule with one limit of n units for everybody.
func global(name string, n int64, action policy.Action) policy.Rule {
	return policy.Rule{Name: name, Key: []policy.Part{policy.Global()}, Limits: perDay(n), WhenLimited: policy.LimitedAction{Action: action}}
}

// remaining returns the remaining units of a rule's first limit.
func remaining(tb testing.TB, p *policy.Policy, store sluice.Store, rule string) int64 {
	tb.Helper()
	d, err := store.Decide(context.Background(), sluice.Request{Limit: p.Rule(rule).Limits[0], Key: sluice.StringKey("global"), Peek: true})
	if err != nil {
		tb.Fatal(err)
	}
	return d.Remaining
}

// The gravest action wins, and only enforced rules deny.
func TestGravestActionWins(t *testing.T) {
	for _, c := range []struct {
		deny           map[string]bool // which rules are over their limit
		action         policy.Action
		degrade, mark  string
		reason         sluice.Reason
		headers        string // the rule that fills them
		returned, left int    // charges given back, and left
	}{
		{map[string]bool{}, policy.Allow, "", "", 0, "enforced", 0, 4},
		{map[string]bool{"mark": true}, policy.Mark, "", "mark", 0, "enforced", 0, 3},
		{map[string]bool{"degrade": true}, policy.Degrade, "degrade", "", 0, "enforced", 0, 3},
		{map[string]bool{"degrade": true, "mark": true}, policy.Degrade, "degrade", "mark", 0, "enforced", 0, 2},
		{map[string]bool{"shadow": true}, policy.Allow, "", "", 0, "enforced", 0, 3},
		{map[string]bool{"enforced": true}, policy.Deny, "", "", sluice.ReasonLimited, "enforced", 2, 1},
		{map[string]bool{"enforced": true, "mark": true}, policy.Deny, "", "", sluice.ReasonLimited, "enforced", 1, 1},
		{map[string]bool{"enforced": true, "mark": true, "degrade": true, "shadow": true}, policy.Deny, "", "", sluice.ReasonLimited, "enforced", 0, 0},
	} {
		shadow := global("shadow", 5, policy.Degrade)
		shadow.Shadow = true
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{
			global("mark", 5, policy.Mark), global("degrade", 5, policy.Degrade), shadow, global("enforced", 5, policy.Deny),
		}})
		s := &stub{keep: true, answer: func(r *sluice.Request) sluice.Decision {
			if c.deny[r.Limit.Name()] {
				return denied(sluice.ReasonLimited, time.Second)
			}
			return allowed(5, 10, 0)
		}}
		v := p.Decide(t.Context(), s, &policy.Attributes{})
		name := func(r *policy.Rule) string {
			if r == nil {
				return ""
			}
			return r.Name
		}
		if v.Action != c.action || name(v.Degrade) != c.degrade || name(v.Mark) != c.mark || v.Reason != c.reason || name(v.Rule) != c.headers || v.Allowed() == (c.action == policy.Deny) {
			t.Errorf("with these rules denied: %v: %+v, want %+v", c.deny, v, c)
		}
		if len(s.ended) != c.returned || len(v.Charges()) != c.left {
			t.Errorf("%v: given back %+v, left %+v", c.deny, s.ended, v.Charges())
		}
		for _, e := range s.ended {
			if e.units != 0 || e.charge.Cost != 1 {
				t.Errorf("%v: ended %+v", c.deny, e)
			}
		}
		for i, role := range []policy.Role{policy.RoleAdvisory, policy.RoleAdvisory, policy.RoleShadow, policy.RoleEnforced} {
			if m := v.Results[i]; m.Role != role || m.Request.Shadow != (role != policy.RoleEnforced) || s.requests[i].Shadow != m.Request.Shadow {
				t.Errorf("%s has the role %v", m.Rule.Name, m.Role)
			}
		}
	}
}

// For all results, the verdict has the gravest action of the rules that are not in
// shadow. If all enforced rules allow a request, no rule denies it.
func TestFoldProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for round := range 2000 {
		rules := named("a", "b", "c", "d", "e")
		answers := map[string]bool{}
		gravest, enforced := policy.Allow, false
		for i := range rules {
			rules[i].WhenLimited.Action = policy.Action(r.IntN(4))
			rules[i].Shadow = r.IntN(5) == 0
			ok := r.IntN(3) > 0
			answers[rules[i].Name] = ok
			if rules[i].Shadow {
				continue
			}
			advisory := rules[i].WhenLimited.Action == policy.Mark || rules[i].WhenLimited.Action == policy.Degrade
			enforced = enforced || !advisory
			switch {
			case ok:
			case advisory:
				gravest = max(gravest, rules[i].WhenLimited.Action)
			default:
				gravest = policy.Deny
			}
		}
		p := mustPolicy(t, policy.Options{Rules: rules})
		s := &stub{answer: func(q *sluice.Request) sluice.Decision {
			d := allowed(int64(r.IntN(9)), 10, time.Duration(r.IntN(2))*time.Second)
			if !answers[q.Limit.Name()] {
				d = denied(sluice.ReasonLimited, time.Duration(1+r.IntN(9))*time.Second)
			}
			return d
		}}
		v := p.Decide(t.Context(), s, &policy.Attributes{})
		if v.Action != gravest || (v.Rule != nil) != enforced || v.Allowed() == (gravest == policy.Deny) {
			t.Fatalf("round %d, answers %v: %s", round, answers, v.String())
		}
		var wait, delay time.Duration
		least := int64(1 << 62)
		for _, m := range v.Results {
			if m.Role != policy.RoleEnforced {
				continue
			}
			wait, delay = max(wait, m.Decision.RetryAfter), max(delay, m.Decision.Delay)
			least = min(least, m.Decision.Remaining)
		}
		switch {
		case gravest == policy.Deny && (v.RetryAfter() != wait || v.Delay != 0 || v.Degrade != nil || v.Mark != nil):
			t.Fatalf("round %d: denied, %s", round, v.String())
		case gravest != policy.Deny && (v.Delay != delay || enforced && v.Tightest.Remaining != least):
			t.Fatalf("round %d: allowed, %s", round, v.String())
		}
		for _, c := range v.Charges() {
			if rule := p.Rule(c.Limit.Name()); gravest == policy.Deny && !rule.Shadow {
				t.Fatalf("round %d: rule %s keeps its charge of a denied request", round, rule.Name)
			}
		}
	}
}

// Over a store, a conforming request is charged and any other is marked. Neither is charged
// when another rule refuses.
func TestAdvisoryRulesOverMemory(t *testing.T) {
	for _, action := range []policy.Action{policy.Mark, policy.Degrade} {
		store := mustMemory(t)
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{global("contract", 2, action), global("all", 3, policy.Deny)}})
		var got []string
		for range 5 {
			v := p.Decide(t.Context(), store, &policy.Attributes{})
			got = append(got, v.Action.String())
		}
		want := []string{"allow", "allow", action.String(), "deny", "deny"}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	store := mustMemory(t)
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{global("contract", 9, policy.Mark), global("all", 1, policy.Deny)}})
	for range 4 {
		p.Decide(t.Context(), store, &policy.Attributes{})
	}
	if n := remaining(t, p, store, "contract"); n != 8 {
		t.Errorf("%d of 9 remain after one allowed request and three refused ones", n)
	}
	v := p.Peek(t.Context(), store, &policy.Attributes{})
	if n := remaining(t, p, store, "contract"); n != 8 || len(v.Charges()) != 0 {
		t.Errorf("%d remain after a peek", n)
	}
}

// An advisory rule's lease ends when another rule refuses.
func TestAdvisoryLeases(t *testing.T) {
	store := mustMemory(t)
	advisory := global("flight", 1, policy.Degrade)
	advisory.Limits = []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 2})}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{advisory, global("all", 1, policy.Deny)}})
	for range 5 {
		p.Decide(t.Context(), store, &policy.Attributes{})
	}
	if n := remaining(t, p, store, "flight"); n != 1 {
		t.Errorf("%d of 2 units remain, with one request in flight", n)
	}
}

// If a charge cannot be given back, it stays in Charges, so the edge can try again.
func TestGiveBackFails(t *testing.T) {
	s := &stub{answer: func(r *sluice.Request) sluice.Decision {
		if r.Limit.Name() == "enforced" {
			return denied(sluice.ReasonLimited, 1)
		}
		return allowed(5, 10, 0)
	}}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{global("mark", 5, policy.Mark), global("enforced", 5, policy.Deny)}})
	broken := errors.New("broken")
	s.fails = func([]sluice.Request) error { return nil }
	s.err = broken // only of ending charges
	v := p.Decide(t.Context(), s, &policy.Attributes{})
	if c := v.Charges(); len(c) != 1 || c[0].Limit.Name() != "mark" || v.Results[0].Returned || v.Err != nil {
		t.Errorf("charges %+v: %s", c, v.String())
	}
}

// An advisory rule marks a request at once instead of delaying it.
func TestAdvisoryRulesDoNotDelay(t *testing.T) {
	advisory := global("pace", 1, policy.Mark)
	advisory.Limits = []*sluice.Limit{sluice.MustLimit("", sluice.LeakyBucket{Rate: sluice.PerMinute(1), Queue: 10})}
	p, store := mustPolicy(t, policy.Options{Rules: []policy.Rule{advisory}}), mustMemory(t)
	var got []policy.Action
	for range 2 {
		v := p.Decide(t.Context(), store, &policy.Attributes{MaxWait: time.Hour})
		got = append(got, v.Action)
		if v.Delay != 0 {
			t.Errorf("a delay of %v", v.Delay)
		}
	}
	if want := []policy.Action{policy.Allow, policy.Mark}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// A rule in shadow that lacks a part of its key has one result, however many variants the path has. It has no limits to show.
func TestShadowRulesWithoutAKeyHaveOneResult(t *testing.T) {
	rule := policy.Rule{Name: "key", Shadow: true, Key: []policy.Part{policy.Path(), policy.Header("X").IfMissing(policy.MissingDeny)}, Limits: bucket()}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}})
	a := &policy.Attributes{Path: "/a%2Fb//c;d"}
	if v := p.Decide(t.Context(), mustMemory(t), a); !v.Allowed() || len(v.Results) != 1 || v.Results[0].Decision.Reason != sluice.ReasonMissingKey {
		t.Errorf("%d results: %s", len(v.Results), v.String())
	}
	if limits := p.LimitsFor(a); len(limits) != 0 {
		t.Errorf("a request without a key has limits: %+v", limits)
	}
}

// A policy in shadow decides and counts, and lets every request pass.
func TestShadowPolicy(t *testing.T) {
	rules := []policy.Rule{global("enforced", 1, policy.Deny), global("advisory", 1, policy.Degrade)}
	rules[0].DenyIPs = prefixes("192.0.2.0/24")
	rules[1].Match.Paths = []string{"/advisory"}
	rules = append(rules, policy.Rule{Name: "key", Match: policy.Match{Paths: []string{"/key"}}, Key: []policy.Part{policy.Header("X").IfMissing(policy.MissingDeny)}, Limits: bucket()})
	p := mustPolicy(t, policy.Options{Shadow: true, Default: policy.Deny, Rules: rules})
	store := mustMemory(t)
	for i := range 3 {
		v := p.Decide(t.Context(), store, &policy.Attributes{Path: "/advisory"})
		if v.Action != policy.Allow || v.Rule != nil || v.Results[0].Decision.Allowed != (i == 0) || v.Results[1].Decision.Allowed != (i == 0) {
			t.Errorf("request %d: %s", i, v.String())
		}
	}
	v := p.Decide(t.Context(), store, from("192.0.2.7"))
	if !v.Allowed() || v.Results[0].Listed != policy.ListDeny || v.Results[0].Decision.Reason != sluice.ReasonListed {
		t.Errorf("a client on the list: %s", v.String())
	}
	if v := p.Decide(t.Context(), store, &policy.Attributes{Path: "/key"}); !v.Allowed() || v.Results[1].Decision.Reason != sluice.ReasonMissingKey {
		t.Errorf("without a key: %s", v.String())
	}
	none := mustPolicy(t, policy.Options{Shadow: true, Default: policy.Deny})
	if v := none.Decide(t.Context(), store, &policy.Attributes{}); !v.Allowed() || v.Reason != sluice.ReasonNoRule {
		t.Errorf("no rule: %s", v.String())
	}
}

// A candidate is decided separately, beside the limit in force.
func TestCandidatesAreDecidedSeparately(t *testing.T) {
	rule := global("r", 3, policy.Deny)
	rule.Candidate = append(perDay(1), sluice.MustLimit("strict", sluice.FixedWindow{Rate: sluice.PerDay(2)}))
	rule.Ban, rule.BanShared = &sluice.Ban{After: 1, For: time.Hour}, true
	p, store := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}}), mustMemory(t)
	var names []string
	for _, l := range p.Rule("r").Candidate {
		names = append(names, l.Name())
	}
	if want := []string{"r/candidate/1", "r/candidate/strict"}; !slices.Equal(names, want) {
		t.Errorf("the candidates are %q", names)
	}
	for i := range 3 {
		v := p.Decide(t.Context(), store, &policy.Attributes{})
		if !v.Allowed() || len(v.Results) != 3 || v.TightestLimit.Name() != "r" || v.Tightest.Remaining != int64(2-i) {
			t.Errorf("request %d: %s", i, v.String())
		}
		for j, m := range v.Results[1:] {
			if m.Role != policy.RoleCandidate || m.Decision.Allowed != (i < j+1) || m.Request.Ban != nil {
				t.Errorf("request %d: %s", i, v.String())
			}
		}
	}
	if err := p.Reset(t.Context(), store, "r"); err != nil {
		t.Fatal(err)
	}
	if v := p.Peek(t.Context(), store, &policy.Attributes{}); !v.Results[1].Decision.Allowed || p.Fallback(p.Rule("r").Candidate[0]) != sluice.FallbackAllow {
		t.Errorf("after a reset: %s", v.String())
	}
}

// A rule with a bandwidth paces the requests that it allows.
func TestAllowedRequestsArePaced(t *testing.T) {
	pace := &policy.Bandwidth{Down: sluice.PerSecond(1_000_000)}
	rules := []policy.Rule{
		{Name: "only", Key: []policy.Part{policy.ClientIP()}, Bandwidth: pace, DenyIPs: prefixes("192.0.2.9/32"), AllowIPs: prefixes("192.0.2.8/32")},
		{Name: "both", Key: []policy.Part{policy.Header("X")}, Bandwidth: pace, Limits: perDay(2)},
		{Name: "shadow", Key: []policy.Part{policy.Header("X")}, Bandwidth: pace, Shadow: true},
	}
	p, store := mustPolicy(t, policy.Options{Rules: rules, Default: policy.Deny}), mustMemory(t)
	a := from("192.0.2.7")
	a.Values = values{header: map[string]string{"X": "x"}}
	paced := func(v policy.Verdict) (text string) {
		for _, m := range v.Paced {
			text += fmt.Sprintf("%s %s %v;", m.Rule.Name, m.Key, m.Rule.Bandwidth.Down)
		}
		return text
	}
	for _, want := range []string{"only 192.0.2.7 1000000/s;both x 1000000/s;", "only 192.0.2.7 1000000/s;both x 1000000/s;", ""} {
		if v := p.Decide(t.Context(), store, a); paced(v) != want || v.Allowed() != (want != "") {
			t.Errorf("paced by %q, want %q: %s", paced(v), want, v.String())
		}
	}
	only := mustPolicy(t, policy.Options{Rules: rules[:1], Default: policy.Deny})
	for addr, want := range map[string]string{"192.0.2.7": "allow only 192.0.2.7 1000000/s;", "192.0.2.8": "allow ", "192.0.2.9": "deny "} {
		s := &stub{}
		if v := only.Decide(t.Context(), s, from(addr)); fmt.Sprint(v.Action, " ", paced(v)) != want || s.single+s.batch > 0 || len(v.Results) > 0 {
			t.Errorf("%s: %v %q, %d requests", addr, v.Action, paced(v), s.single+s.batch)
		}
	}
}

// A rule with Always takes its action for every request that it matches, and calls no store.
func TestAlwaysActsWithoutTheStore(t *testing.T) {
	for _, c := range []struct {
		action policy.Action
		shadow bool
		want   string
	}{
		{policy.Deny, false, "deny: rule r: limited"},
		{policy.Degrade, false, "degrade: rule r"},
		{policy.Mark, false, "mark: rule r"},
		{policy.Deny, true, "allow"},
	} {
		rule := policy.Rule{
			Name: "r", Always: true, Shadow: c.shadow, WhenLimited: policy.LimitedAction{Action: c.action}, AllowIPs: prefixes("10.0.0.0/8"),
		}
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}, Default: policy.Deny})
		s := &stub{err: errors.New("broken")}
		v := p.Decide(t.Context(), s, from("192.0.2.1"))
		if got := v.String(); got != c.want || len(v.Charges()) > 0 {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if v := p.Decide(t.Context(), s, from("10.0.0.1")); v.Action != policy.Allow || v.Results[0].Listed != policy.ListAllow {
			t.Errorf("on the list to allow: %s", v.String())
		}
		results := p.LimitsFor(from("192.0.2.1"))
		if len(results) != 1 || results[0].Decision.Allowed || results[0].Settles() {
			t.Errorf("results %+v", results)
		}
		if err := p.Reset(t.Context(), s, "r"); err != nil || s.single+s.batch+len(s.reset) > 0 {
			t.Errorf("the store was called: %v", err)
		}
	}
	// The action applies even if the store fails for other rules.
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{{Name: "r", Always: true, WhenLimited: policy.LimitedAction{Action: policy.Mark}}, global("all", 5, policy.Deny)}})
	if v := p.Decide(t.Context(), &stub{err: errors.New("broken")}, &policy.Attributes{}); v.Action != policy.Mark || v.Mark.Name != "r" {
		t.Errorf("with a store that fails: %s", v.String())
	}
}
