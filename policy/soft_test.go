package policy_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// perDay is a limit of n units that nothing gives back during a test.
func perDay(n int64) []*sluice.Limit {
	return []*sluice.Limit{sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(n)})}
}

// global is a rule for everybody with a limit of n units.
func global(name string, n int64, action policy.Action) policy.Rule {
	return policy.Rule{Name: name, Key: []policy.Part{policy.Global()}, Limits: perDay(n), WhenLimited: policy.Response{Action: action}}
}

// remaining returns what is left of a rule's first limit.
func remaining(tb testing.TB, p *policy.Policy, store sluice.Store, rule string) int64 {
	tb.Helper()
	d, err := store.Decide(context.Background(), sluice.Request{Limit: p.Rule(rule).Limits[0], Key: sluice.StringKey("global"), Peek: true})
	if err != nil {
		tb.Fatal(err)
	}
	return d.Remaining
}

// The gravest action wins, and only rules that enforce deny.
func TestActions(t *testing.T) {
	for _, c := range []struct {
		deny           map[string]bool // which rules run over
		action         policy.Action
		degrade, mark  string
		reason         sluice.Reason
		headers        string // the rule that fills them
		returned, left int    // charges given back, and left
	}{
		{map[string]bool{}, policy.Allow, "", "", 0, "hard", 0, 4},
		{map[string]bool{"mark": true}, policy.Mark, "", "mark", 0, "hard", 0, 3},
		{map[string]bool{"degrade": true}, policy.Degrade, "degrade", "", 0, "hard", 0, 3},
		{map[string]bool{"degrade": true, "mark": true}, policy.Degrade, "degrade", "mark", 0, "hard", 0, 2},
		{map[string]bool{"shadow": true}, policy.Allow, "", "", 0, "hard", 0, 3},
		{map[string]bool{"hard": true}, policy.Deny, "", "", sluice.ReasonLimited, "hard", 2, 1},
		{map[string]bool{"hard": true, "mark": true}, policy.Deny, "", "", sluice.ReasonLimited, "hard", 1, 1},
		{map[string]bool{"hard": true, "mark": true, "degrade": true, "shadow": true}, policy.Deny, "", "", sluice.ReasonLimited, "hard", 0, 0},
	} {
		shadow := global("shadow", 5, policy.Degrade)
		shadow.Shadow = true
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{
			global("mark", 5, policy.Mark), global("degrade", 5, policy.Degrade), shadow, global("hard", 5, policy.Deny),
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
			t.Errorf("%v: %+v", c.deny, v)
		}
		if len(s.ended) != c.returned || len(v.Charges()) != c.left {
			t.Errorf("%v: given back %+v, left %+v", c.deny, s.ended, v.Charges())
		}
		for _, e := range s.ended {
			if e.units != 0 || e.charge.Cost != 1 {
				t.Errorf("%v: ended %+v", c.deny, e)
			}
		}
		for i, role := range []policy.Role{policy.RoleSoft, policy.RoleSoft, policy.RoleShadow, policy.RoleEnforced} {
			if m := v.Met[i]; m.Role != role || m.Request.Shadow != (role != policy.RoleEnforced) || s.asked[i].Shadow != m.Request.Shadow {
				t.Errorf("%s has the role %v", m.Rule.Name, m.Role)
			}
		}
	}
}

// Whatever the limits answer, the verdict has the gravest action of the rules
// that have a say, and what rules that enforce let pass is denied by none.
func TestFoldProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for round := range 2000 {
		rules := named("a", "b", "c", "d", "e")
		answers := map[string]bool{}
		gravest, hard := policy.Allow, false
		for i := range rules {
			rules[i].WhenLimited.Action = policy.Action(r.IntN(4))
			rules[i].Shadow = r.IntN(5) == 0
			ok := r.IntN(3) > 0
			answers[rules[i].Name] = ok
			if rules[i].Shadow {
				continue
			}
			soft := rules[i].WhenLimited.Action == policy.Mark || rules[i].WhenLimited.Action == policy.Degrade
			hard = hard || !soft
			switch {
			case ok:
			case soft:
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
		if v.Action != gravest || (v.Rule != nil) != hard || v.Allowed() == (gravest == policy.Deny) {
			t.Fatalf("round %d, answers %v: %s", round, answers, v.Explain())
		}
		var wait, delay time.Duration
		least := int64(1 << 62)
		for _, m := range v.Met {
			if m.Role != policy.RoleEnforced {
				continue
			}
			wait, delay = max(wait, m.Decision.RetryAfter), max(delay, m.Decision.Delay)
			least = min(least, m.Decision.Remaining)
		}
		switch {
		case gravest == policy.Deny && (v.RetryAfter() != wait || v.Delay != 0 || v.Degrade != nil || v.Mark != nil):
			t.Fatalf("round %d: denied, %s", round, v.Explain())
		case gravest != policy.Deny && (v.Delay != delay || hard && v.Tightest.Remaining != least):
			t.Fatalf("round %d: passes, %s", round, v.Explain())
		}
		for _, c := range v.Charges() {
			if rule := p.Rule(c.Limit.Name()); gravest == policy.Deny && !rule.Shadow {
				t.Fatalf("round %d: rule %s keeps what it took of a denied request", round, rule.Name)
			}
		}
	}
}

// Over a store: what conforms is charged, what does not is marked, and neither costs anything
// when another rule refuses.
func TestSoftRulesOverMemory(t *testing.T) {
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
		t.Errorf("%d of 9 remain after one request that passed and three that did not", n)
	}
	v := p.Peek(t.Context(), store, &policy.Attributes{})
	if n := remaining(t, p, store, "contract"); n != 8 || len(v.Charges()) != 0 {
		t.Errorf("%d remain after a peek", n)
	}
}

// A soft rule's lease is ended when another rule refuses.
func TestSoftLeases(t *testing.T) {
	store := mustMemory(t)
	soft := global("flight", 1, policy.Degrade)
	soft.Limits = []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 2})}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{soft, global("all", 1, policy.Deny)}})
	for range 5 {
		p.Decide(t.Context(), store, &policy.Attributes{})
	}
	if n := remaining(t, p, store, "flight"); n != 1 {
		t.Errorf("%d of 2 places remain, with one request in flight", n)
	}
}

// What cannot be given back stays with the charges, for the edge to try again.
func TestGiveBackFails(t *testing.T) {
	s := &stub{answer: func(r *sluice.Request) sluice.Decision {
		if r.Limit.Name() == "hard" {
			return denied(sluice.ReasonLimited, 1)
		}
		return allowed(5, 10, 0)
	}}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{global("mark", 5, policy.Mark), global("hard", 5, policy.Deny)}})
	broken := errors.New("broken")
	s.fails = func([]sluice.Request) error { return nil }
	s.err = broken // of ends alone
	v := p.Decide(t.Context(), s, &policy.Attributes{})
	if c := v.Charges(); len(c) != 1 || c[0].Limit.Name() != "mark" || v.Met[0].Returned || v.Err != nil {
		t.Errorf("charges %+v: %s", c, v.Explain())
	}
}

// What does not conform at once is not delayed first.
func TestSoftRulesDoNotDelay(t *testing.T) {
	soft := global("pace", 1, policy.Mark)
	soft.Limits = []*sluice.Limit{sluice.MustLimit("", sluice.LeakyBucket{Rate: sluice.PerMinute(1), Queue: 10})}
	p, store := mustPolicy(t, policy.Options{Rules: []policy.Rule{soft}}), mustMemory(t)
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

func TestSoftStoreError(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		soft, hard policy.Fallback
		action     policy.Action
		rule       string
	}{
		{policy.FallbackAllow, policy.FallbackAllow, policy.Allow, "hard"},
		{policy.FallbackDeny, policy.FallbackAllow, policy.Degrade, "hard"},
		{policy.FallbackAllow, policy.FallbackDeny, policy.Deny, "hard"},
		{policy.FallbackDeny, policy.FallbackDeny, policy.Deny, "hard"},
	} {
		rules := []policy.Rule{global("soft", 5, policy.Degrade), global("hard", 5, policy.Deny)}
		rules[0].OnStoreError, rules[1].OnStoreError = c.soft, c.hard
		v := mustPolicy(t, policy.Options{Rules: rules}).Decide(t.Context(), &stub{err: broken}, &policy.Attributes{})
		if v.Action != c.action || v.Rule.Name != c.rule || (v.Degrade != nil) != (c.action == policy.Degrade) || !errors.Is(v.Err, broken) {
			t.Errorf("%v and %v: %s", c.soft, c.hard, v.Explain())
		}
	}
	v := mustPolicy(t, policy.Options{Rules: []policy.Rule{global("soft", 5, policy.Mark)}, OnStoreError: policy.FallbackDeny}).
		Decide(t.Context(), &stub{err: broken}, &policy.Attributes{})
	if v.Action != policy.Mark || v.Rule != nil {
		t.Errorf("a soft rule alone: %s", v.Explain())
	}
}

// markPolicy marks what is beyond a contract, and drops what is marked when there is congestion.
func markPolicy(tb testing.TB, pressure func(string) float64) *policy.Policy {
	tb.Helper()
	drop := global("drop", 1, policy.Deny)
	drop.Limits = perDay(1)
	drop.Match = policy.Match{Marked: new(bool), Pressure: 0.9, PressureOf: "all"}
	*drop.Match.Marked = true
	return mustPolicy(tb, policy.Options{Pressure: pressure, Rules: []policy.Rule{drop, global("contract", 2, policy.Mark), global("all", 100, policy.Deny)}})
}

// Marked traffic is dropped first when there is congestion, whoever marked it.
func TestMarkedFirstDrop(t *testing.T) {
	pressure := 0.5
	p := markPolicy(t, func(string) float64 { return pressure })
	store := mustMemory(t)
	ask := func(marked bool) string {
		v := p.Decide(t.Context(), store, &policy.Attributes{Marked: marked})
		names := make([]string, len(v.Met))
		for i, m := range v.Met {
			names[i] = m.Rule.Name
		}
		return v.Action.String() + " " + strings.Join(names, " ")
	}
	for i, step := range []struct {
		marked   bool
		pressure float64
		want     string
	}{
		{false, 0.5, "allow contract all"},
		{true, 0.5, "allow contract all"}, // the contract is used up now
		{false, 0.5, "mark contract all"},
		{false, 0.9, "mark drop contract all"},
		{false, 0.9, "deny drop contract all"}, // the rule that drops lets one pass
		{true, 0.9, "deny drop contract all"},
		{false, 0.5, "mark contract all"},
	} {
		pressure = step.pressure
		if got := ask(step.marked); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	if n := remaining(t, p, store, "all"); n != 95 {
		t.Errorf("%d of 100 remain, after five that passed", n)
	}
}

// Rules that mark are asked first only when the answer matters.
func TestMarksAreAskedFirst(t *testing.T) {
	p := markPolicy(t, func(string) float64 { return 1 })
	for _, c := range []struct {
		marked        bool
		allow         bool
		single, batch int
		action        policy.Action
	}{
		{false, true, 2, 0, policy.Allow},
		{false, false, 1, 1, policy.Mark},
		{true, true, 0, 1, policy.Allow},
		{true, false, 0, 1, policy.Mark},
	} {
		s := &stub{answer: func(r *sluice.Request) sluice.Decision {
			if r.Limit.Name() == "contract" && !c.allow {
				return denied(sluice.ReasonLimited, time.Second)
			}
			return allowed(5, 10, 0)
		}}
		v := p.Decide(t.Context(), s, &policy.Attributes{Marked: c.marked})
		if s.single != c.single || s.batch != c.batch || v.Action != c.action {
			t.Errorf("%+v: %d questions and %d batches: %s", c, s.single, s.batch, v.Explain())
		}
	}
	// An error of the first question is that of all.
	broken := errors.New("broken")
	v := p.Decide(t.Context(), &stub{err: broken}, &policy.Attributes{})
	if !errors.Is(v.Err, broken) || v.Reason != sluice.ReasonStoreError || len(v.Met) != 2 || len(v.Charges()) != 0 {
		t.Errorf("a store that fails: %s", v.Explain())
	}
	// One of the second leaves what the first took to the edge.
	s := &stub{fails: func(rs []sluice.Request) error {
		if rs[0].Limit.Name() == "contract" {
			return nil
		}
		return broken
	}}
	v = p.Decide(t.Context(), s, &policy.Attributes{})
	if !errors.Is(v.Err, broken) || len(v.Met) != 2 || len(v.Charges()) != 1 {
		t.Errorf("a store that fails later: %s", v.Explain())
	}
}

// A request that is refused without asking gives back what its mark has cost.
func TestMarkOfRefused(t *testing.T) {
	marked := true
	refuse := policy.Rule{
		Name: "refuse", Match: policy.Match{Unless: []policy.Match{{Marked: &marked}}},
		Key: []policy.Part{policy.Header("X").IfMissing(policy.MissingDeny)}, Limits: perDay(5),
	}
	p, store := mustPolicy(t, policy.Options{Rules: []policy.Rule{global("contract", 2, policy.Mark), refuse}}), mustMemory(t)
	for i := range 4 {
		if v := p.Decide(t.Context(), store, &policy.Attributes{}); v.Reason != sluice.ReasonMissingKey {
			t.Errorf("request %d: %s", i, v.Explain())
		}
	}
	if n := remaining(t, p, store, "contract"); n != 2 {
		t.Errorf("%d of 2 remain", n)
	}
}

func TestShadowPolicy(t *testing.T) {
	rules := []policy.Rule{global("hard", 1, policy.Deny), global("soft", 1, policy.Degrade)}
	rules[0].DenyIPs = prefixes("192.0.2.0/24")
	rules[1].Match.Paths = []string{"/soft"}
	rules = append(rules, policy.Rule{Name: "key", Match: policy.Match{Paths: []string{"/key"}}, Key: []policy.Part{policy.Header("X").IfMissing(policy.MissingDeny)}, Limits: bucket()})
	p := mustPolicy(t, policy.Options{Shadow: true, Default: policy.Deny, Rules: rules})
	store := mustMemory(t)
	for i := range 3 {
		v := p.Decide(t.Context(), store, &policy.Attributes{Path: "/soft"})
		if v.Action != policy.Allow || v.Rule != nil || v.Met[0].Decision.Allowed != (i == 0) || v.Met[1].Decision.Allowed != (i == 0) {
			t.Errorf("request %d: %s", i, v.Explain())
		}
	}
	v := p.Decide(t.Context(), store, from("192.0.2.7"))
	if !v.Allowed() || v.Met[0].Listed != policy.ListDeny || v.Met[0].Decision.Reason != sluice.ReasonListed {
		t.Errorf("a client on the list: %s", v.Explain())
	}
	if v := p.Decide(t.Context(), store, &policy.Attributes{Path: "/key"}); !v.Allowed() || v.Met[1].Decision.Reason != sluice.ReasonMissingKey {
		t.Errorf("without a key: %s", v.Explain())
	}
	none := mustPolicy(t, policy.Options{Shadow: true, Default: policy.Deny})
	if v := none.Decide(t.Context(), store, &policy.Attributes{}); !v.Allowed() || v.Reason != sluice.ReasonNoRule {
		t.Errorf("no rule: %s", v.Explain())
	}
}

// A candidate is decided on its own, beside the limit in force.
func TestCandidate(t *testing.T) {
	rule := global("r", 3, policy.Deny)
	rule.Candidate = append(perDay(1), sluice.MustLimit("strict", sluice.FixedWindow{Rate: sluice.PerDay(2)}))
	rule.Ban = &sluice.Ban{After: 1, For: time.Hour}
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
		if !v.Allowed() || len(v.Met) != 3 || v.TightestLimit.Name() != "r" || v.Tightest.Remaining != int64(2-i) {
			t.Errorf("request %d: %s", i, v.Explain())
		}
		for j, m := range v.Met[1:] {
			if m.Role != policy.RoleCandidate || m.Decision.Allowed != (i < j+1) || m.Request.Ban != nil {
				t.Errorf("request %d: %s", i, v.Explain())
			}
		}
	}
	if err := p.Reset(t.Context(), store, "r"); err != nil {
		t.Fatal(err)
	}
	if v := p.Peek(t.Context(), store, &policy.Attributes{}); !v.Met[1].Decision.Allowed || p.Fallback(p.Rule("r").Candidate[0]) != policy.FallbackAllow {
		t.Errorf("after a reset: %s", v.Explain())
	}
}

// What is reserved is kept from all others, to the unit.
func TestReserved(t *testing.T) {
	class := func(name string) policy.Class {
		return policy.Class{Name: name, Match: policy.Match{Headers: []policy.ValueMatch{{Name: "X-Class", OneOf: []string{name}}}}}
	}
	rule := global("r", 10, policy.Deny)
	rule.Reserved = []policy.Reserve{
		{Share: 15, For: []string{"critical"}}, // two of ten
		{Units: 4, For: []string{"critical", "paying"}},
	}
	rule.Limits = append(rule.Limits, sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerDay(10)}))
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}, Classes: []policy.Class{class("critical"), class("paying"), class("other")}})
	as := func(name string) *policy.Attributes {
		return &policy.Attributes{Values: values{header: map[string]string{"X-Class": name}}}
	}
	take := func(store sluice.Store, name string) (n int) {
		for ; n < 20; n++ {
			if v := p.Decide(t.Context(), store, as(name)); !v.Allowed() {
				break
			}
		}
		return n
	}
	store := mustMemory(t)
	for _, c := range []struct {
		class string
		want  int
	}{{"", 6}, {"other", 0}, {"paying", 2}, {"", 0}, {"critical", 2}, {"critical", 0}} {
		if n := take(store, c.class); n != c.want {
			t.Errorf("class %q takes %d, want %d", c.class, n, c.want)
		}
	}
	v := p.Peek(t.Context(), mustMemory(t), as("paying"))
	if v.Tightest.Remaining != 8 || v.Met[0].Request.Floor != 2 || v.Class != "paying" {
		t.Errorf("paying traffic: %s", v.Explain())
	}
	for _, c := range []struct {
		class string
		floor int64
	}{{"", 4}, {"other", 4}, {"paying", 2}, {"critical", 0}} {
		v, err := p.DecideRule(t.Context(), &stub{}, policy.Question{Rule: "r", Class: c.class})
		if err != nil || v.Met[1].Request.Floor != c.floor || v.Class != c.class {
			t.Errorf("a question of class %q: %v, %s", c.class, err, v.Explain())
		}
	}
	var bad *policy.QuestionError
	if _, err := p.DecideRule(t.Context(), &stub{}, policy.Question{Rule: "r", Class: "none"}); !errors.As(err, &bad) {
		t.Errorf("an unknown class: %v", err)
	}
}

// The bound of a reserve holds for every schedule: ordinary traffic never takes
// what is kept, and all that is kept can be taken.
func TestReservedLaw(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for round := range 200 {
		capacity, share := 1+r.Int64N(200), 1+r.IntN(99)
		kept := (capacity*int64(share) + 99) / 100
		rule := global("r", capacity, policy.Deny)
		rule.Reserved = []policy.Reserve{{Share: share, For: []string{"critical"}}}
		p, err := policy.New(policy.Options{Rules: []policy.Rule{rule}, Classes: []policy.Class{{Name: "critical", Match: policy.Match{Methods: []string{"PUT"}}}}})
		if (err != nil) != (kept >= capacity) {
			t.Fatalf("round %d: %d%% of %d: %v", round, share, capacity, err)
		}
		if err != nil {
			continue
		}
		store, taken := mustMemory(t), int64(0)
		for range 50 {
			cost, method := 1+r.Int64N(capacity), []string{"GET", "PUT"}[r.IntN(2)]
			v := p.Decide(t.Context(), store, &policy.Attributes{Method: method, Cost: cost})
			may := capacity
			if method == "GET" {
				may -= kept
			}
			if v.Allowed() != (taken+cost <= may) {
				t.Fatalf("round %d: %s of %d, after %d of %d with %d kept: %s", round, method, cost, taken, capacity, kept, v.Explain())
			}
			if v.Allowed() {
				taken += cost
			}
		}
	}
}

func TestPaced(t *testing.T) {
	pace := &policy.Bandwidth{Down: sluice.PerSecond(1_000_000)}
	rules := []policy.Rule{
		{Name: "only", Key: []policy.Part{policy.ClientIP()}, Bandwidth: pace, DenyIPs: prefixes("192.0.2.9/32"), AllowIPs: prefixes("192.0.2.8/32")},
		{Name: "both", Key: []policy.Part{policy.Header("X")}, Bandwidth: pace, Limits: perDay(2)},
		{Name: "shadow", Key: []policy.Part{policy.Header("X")}, Bandwidth: pace, Shadow: true},
	}
	p, store := mustPolicy(t, policy.Options{Rules: rules, Default: policy.Deny}), mustMemory(t)
	a := from("192.0.2.7")
	a.Values = values{header: map[string]string{"X": "x"}}
	told := func(v policy.Verdict) (text string) {
		for _, m := range v.Paced {
			text += fmt.Sprintf("%s %s %v;", m.Rule.Name, m.Key, m.Rule.Bandwidth.Down)
		}
		return text
	}
	for _, want := range []string{"only 192.0.2.7 1000000/s;both x 1000000/s;", "only 192.0.2.7 1000000/s;both x 1000000/s;", ""} {
		if v := p.Decide(t.Context(), store, a); told(v) != want || v.Allowed() != (want != "") {
			t.Errorf("%q: %s", told(v), v.Explain())
		}
	}
	alone := mustPolicy(t, policy.Options{Rules: rules[:1], Default: policy.Deny})
	for addr, want := range map[string]string{"192.0.2.7": "allow only 192.0.2.7 1000000/s;", "192.0.2.8": "allow ", "192.0.2.9": "deny "} {
		s := &stub{}
		if v := alone.Decide(t.Context(), s, from(addr)); fmt.Sprint(v.Action, " ", told(v)) != want || s.single+s.batch > 0 || len(v.Met) > 0 {
			t.Errorf("%s: %v %q, %d questions", addr, v.Action, told(v), s.single+s.batch)
		}
	}
}

func TestResponses(t *testing.T) {
	fallback := global("fallback", 1, policy.Degrade)
	fallback.WhenLimited.Upstream = "http://fallback.example.com"
	static := global("static", 1, policy.Degrade)
	static.WhenLimited.Body = "later"
	own := global("own", 1, policy.Mark)
	own.WhenLimited.RequestHeader = map[string]string{"x-scavenger": "1"}
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{
		global("deny", 1, policy.Allow), global("mark", 1, policy.Mark), global("less", 1, policy.Degrade), fallback, static, own,
	}})
	for _, c := range []struct {
		rule    string
		action  policy.Action
		answers bool
		header  map[string]string
	}{
		{"deny", policy.Deny, false, nil},
		{"mark", policy.Mark, false, map[string]string{policy.MarkedHeader: "mark"}},
		{"less", policy.Degrade, false, map[string]string{policy.DegradedHeader: "less"}},
		{"fallback", policy.Degrade, false, nil},
		{"static", policy.Degrade, true, nil},
		{"own", policy.Mark, false, map[string]string{"x-scavenger": "1"}},
	} {
		r := p.Rule(c.rule).WhenLimited
		if r.Action != c.action || r.Answers() != c.answers || fmt.Sprint(r.RequestHeader) != fmt.Sprint(c.header) {
			t.Errorf("%s: %+v", c.rule, r)
		}
	}
	if got, want := p.RequestHeaders(), []string{"Sluice-Degraded", "Sluice-Marked", "X-Scavenger"}; !slices.Equal(got, want) {
		t.Errorf("headers to strip: %q", got)
	}
}

// A rule that always limits does its action to all that it meets, and asks no store.
func TestAlways(t *testing.T) {
	for _, c := range []struct {
		action policy.Action
		shadow bool
		want   string
	}{
		{policy.Deny, false, "deny: rule r: limited"},
		{policy.Degrade, false, "degrade: rule r\n  r (to degrade): always limited"},
		{policy.Mark, false, "mark: rule r\n  r (to mark): always limited"},
		{policy.Deny, true, "allow\n  r (in shadow): always limited"},
	} {
		rule := policy.Rule{
			Name: "r", Always: true, Shadow: c.shadow, WhenLimited: policy.Response{Action: c.action}, AllowIPs: prefixes("10.0.0.0/8"),
		}
		p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}, Default: policy.Deny})
		s := &stub{err: errors.New("broken")}
		v := p.Decide(t.Context(), s, from("192.0.2.1"))
		if got := v.Explain(); got != c.want || len(v.Charges()) > 0 {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if v := p.Decide(t.Context(), s, from("10.0.0.1")); v.Action != policy.Allow || v.Met[0].Listed != policy.ListAllow {
			t.Errorf("on the list to allow: %s", v.Explain())
		}
		met := p.Meets(from("192.0.2.1"))
		if len(met) != 1 || met[0].Decision.Allowed || met[0].Settles() {
			t.Errorf("meets %+v", met)
		}
		if err := p.Reset(t.Context(), s, "r"); err != nil || s.single+s.batch+len(s.reset) > 0 {
			t.Errorf("the store was asked: %v", err)
		}
	}
	// It stands when the store fails that others ask.
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{{Name: "r", Always: true, WhenLimited: policy.Response{Action: policy.Mark}}, global("all", 5, policy.Deny)}})
	if v := p.Decide(t.Context(), &stub{err: errors.New("broken")}, &policy.Attributes{}); v.Action != policy.Mark || v.Mark.Name != "r" {
		t.Errorf("with a store that fails: %s", v.Explain())
	}
}
