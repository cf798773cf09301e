package policy_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// ahead is a policy whose tenants may have units ahead, over a store with a clock that a test sets.
type ahead struct {
	*testing.T
	*policy.Policy
	table *policy.OverrideTable
	store sluice.Store
	now   time.Time
}

func newAhead(t *testing.T, rules ...policy.Rule) *ahead {
	t.Helper()
	a := &ahead{T: t, table: policy.NewOverrideTable(), now: time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)}
	for i := range rules {
		if rules[i].Key == nil && rules[i].Match.Descriptor == nil {
			rules[i].Key = []policy.Part{policy.Header("X-Tenant")}
		}
	}
	a.Policy = mustPolicy(t, policy.Options{Rules: rules, Overrides: a.table, Terms: perDayTerms(1)})
	store, err := memory.New(memory.Options{Clock: func() int64 { return a.now.UnixMicro() }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	a.store = store
	return a
}

// grant gives a tenant an allowance that lasts an hour.
func (a *ahead) grant(rule, id string, units int64) {
	a.Helper()
	x := policy.Allowance{ID: id, Units: units, Until: a.now.Add(time.Hour)}
	k, err := a.KeyOf(rule, "acme")
	if err == nil {
		err = a.table.Set(policy.AllowancesOf(rule), k, x.String(), x.Until)
	}
	if err != nil {
		a.Fatal(err)
	}
}

// decide makes a request of acme, and reports what is wrong with the verdict.
func (a *ahead) decide(cost int64, allowed, paid bool, remaining int64) policy.Verdict {
	a.Helper()
	q := tenant("acme")
	q.Cost = cost
	v := a.Decide(a.Context(), a.store, q)
	if v.Allowed() != allowed || v.PaidAhead() != paid || v.Tightest.Remaining != remaining {
		a.Errorf("a cost of %d: %s; want allowed %v, paid ahead %v, %d remain", cost, v.String(), allowed, paid, remaining)
	}
	return v
}

func perHour(n int64) *sluice.Limit {
	return sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(n)})
}

func mayHaveAhead(name string, limits ...*sluice.Limit) policy.Rule {
	return policy.Rule{Name: name, Limits: limits, Ahead: &policy.Ahead{Units: 100, For: 24 * time.Hour}}
}

// An allowance pays the whole cost when the limit lacks units. What is given back returns to where it was taken. With more
// units, used ones stay used; another allowance is full, and the next hour has the units of the limit first.
func TestAllowancesPayWhatLimitsLack(t *testing.T) {
	a := newAhead(t, mayHaveAhead("r", perHour(4)))
	a.decide(3, true, false, 1)
	a.decide(2, false, false, 1)
	a.grant("r", "one", 5)
	v := a.decide(2, true, true, 3) // the unit of the limit stays
	if m := &v.Results[0]; m.Ahead.Units != 5 || m.Ahead.Left != 1 || m.Decision.RetryAfter != 0 || m.Request.Limit.Name() != "r" || m.Charge().Limit.Name() != "r/ahead/units" {
		t.Errorf("the result is %+v of %+v", m, m.Ahead)
	}
	a.decide(1, true, false, 0)
	a.decide(4, false, false, 0) // all or nothing
	if v := a.Peek(t.Context(), a.store, tenant("acme")); !v.Allowed() || !v.PaidAhead() || v.Tightest.Remaining != 3 || len(v.Charges()) > 0 {
		t.Errorf("a peek: %s", v.String())
	}
	if err := a.store.Settle(t.Context(), v.Charges()[0], 1); err != nil {
		t.Fatal(err)
	}
	if x, remaining, found, err := a.Allowance(t.Context(), a.store, "r", "acme"); x.Units != 5 || remaining != 4 || !found || err != nil {
		t.Errorf("after a unit came back: %d of %d, %v, %v", remaining, x.Units, found, err)
	}
	v = a.decide(4, true, true, 0)
	if err := v.Results[0].GiveBack(t.Context(), a.store); err != nil {
		t.Fatal(err)
	}
	a.decide(4, true, true, 0)
	a.grant("r", "one", 8)
	a.decide(3, true, true, 0)
	v = a.decide(1, false, false, 0)
	if v.Tightest.RetryAfter != time.Hour {
		t.Errorf("when nothing is left anywhere: %s", v.String())
	}
	a.grant("r", "two", 2)
	a.decide(1, true, true, 1)
	a.now = a.now.Add(time.Hour)
	a.decide(4, true, false, 0)
	a.decide(1, true, true, 0)
	a.decide(1, false, false, 0)
	a.now = a.now.Add(30 * time.Hour) // the table has not dropped it yet
	a.decide(4, true, false, 0)
	a.decide(1, false, false, 0)
	if n := a.table.Expire(a.now); n != 1 || len(a.table.Rules()) > 0 {
		t.Errorf("%d allowances end, and these rules have overrides: %v", n, a.table.Rules())
	}
}

// Only the limits that lack units are paid for. Other limits and rules are charged as always, or nothing is.
func TestAllowancesPayOncePerRule(t *testing.T) {
	burst := sluice.MustLimit("burst", sluice.FixedWindow{Rate: sluice.PerMinute(3)})
	running := sluice.MustLimit("running", sluice.Concurrency{Max: 4, TTL: time.Hour})
	r := mayHaveAhead("r", perHour(1), burst, running)
	r.Candidate = []*sluice.Limit{sluice.MustLimit("new", sluice.FixedWindow{Rate: sluice.PerHour(100)})}
	other := policy.Rule{Name: "other", Limits: []*sluice.Limit{perHour(5)}}
	a := newAhead(t, r, other)
	a.grant("r", "one", 10)
	left := func(v policy.Verdict) (text string) {
		for i := range v.Results {
			text += fmt.Sprint(v.Results[i].Decision.Remaining, " ")
		}
		return text
	}
	for i, want := range []string{"0 2 3 99 4 ", "9 1 2 98 3 ", "8 0 1 97 2 ", "7 7 0 96 1 ", "0 0 0 95 0 "} {
		q := tenant("acme")
		v := a.Decide(t.Context(), a.store, q)
		if got := left(v); i < 4 && got != want || v.Allowed() != (i < 4) || i < 4 && len(v.Charges()) != []int{5, 5, 5, 4}[i] {
			t.Errorf("request %d: %s leaves %swant %s, with charges %v", i, v.String(), got, want, v.Charges())
		}
	}
	if _, remaining, _, err := a.Allowance(t.Context(), a.store, "r", "acme"); remaining != 7 || err != nil {
		t.Errorf("a denial by a concurrency limit leaves %d, %v", remaining, err)
	}
}

// A denial that an allowance prevents leads to no ban, and later ones do. A ban is not lifted by an allowance.
func TestAllowancesComeBeforeBans(t *testing.T) {
	r := mayHaveAhead("r", perHour(1))
	r.Ban = &sluice.Ban{After: 2, Within: time.Hour, For: time.Hour}
	a := newAhead(t, r)
	a.grant("r", "one", 3)
	a.decide(1, true, false, 0)
	for i := range int64(3) {
		a.decide(1, true, true, 2-i)
	}
	for range 2 {
		if v := a.decide(1, false, false, 0); v.Reason != sluice.ReasonLimited {
			t.Errorf("a denial before the ban: %s", v.String())
		}
	}
	a.decide(1, false, false, 0)
	a.grant("r", "two", 3)
	if v := a.decide(1, false, false, 0); v.Reason != sluice.ReasonBanned {
		t.Errorf("a banned key with an allowance: %s", v.String())
	}
}

// A trace names the allowance of the key, whatever is left of it, and of no other key.
func TestTracesNameAllowances(t *testing.T) {
	a := newAhead(t, mayHaveAhead("r", perHour(1)))
	a.grant("r", "one", 3)
	if x := a.Trace(tenant("acme")).Rules[0].Ahead; x == nil || x.Units != 3 || !x.Until.Equal(a.now.Add(time.Hour)) {
		t.Errorf("the trace of a key with 3 units ahead has %+v", x)
	}
	if x := a.Trace(tenant("zoe")).Rules[0].Ahead; x != nil {
		t.Errorf("the trace of a key without units ahead has %+v", x)
	}
}

// An allowance outlives the bound of its rule: a policy without it pays nothing, and a later one pays what was left.
func TestAllowancesOutliveTheBound(t *testing.T) {
	r := mayHaveAhead("r", perHour(1))
	a := newAhead(t, r)
	a.grant("r", "one", 3)
	a.decide(1, true, false, 0)
	a.decide(1, true, true, 2)
	with := a.Policy
	r.Key, r.Ahead = []policy.Part{policy.Header("X-Tenant")}, nil
	a.Policy = mustPolicy(t, policy.Options{Rules: []policy.Rule{r}, Overrides: a.table, Terms: perDayTerms(1)})
	a.decide(1, false, false, 0)
	a.Policy = with
	a.decide(2, true, true, 0)
	a.decide(1, false, false, 0)
}

// An allowance comes before a wait. Without units in it, the request waits as always.
func TestAllowancesComeBeforeWaits(t *testing.T) {
	r := mayHaveAhead("r", sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(60), Burst: 1}))
	r.MaxWait = 10 * time.Second
	a := newAhead(t, r)
	a.grant("r", "one", 1)
	a.decide(1, true, false, 0)
	if v := a.decide(1, true, true, 0); v.Delay != 0 {
		t.Errorf("a request with an allowance: %s", v.String())
	}
	if v := a.decide(1, true, false, 0); v.Delay != time.Second {
		t.Errorf("a request when the allowance is used up: %s", v.String())
	}
}

// If another rule refuses the request, no allowance pays. If two rules lack units, both allowances pay.
func TestAllowancesOfSeveralRules(t *testing.T) {
	a := newAhead(t, mayHaveAhead("r", perHour(1)), mayHaveAhead("s", perHour(2)), policy.Rule{Name: "shadow", Limits: []*sluice.Limit{perHour(3)}, Shadow: true})
	a.grant("r", "one", 5)
	a.decide(1, true, false, 0)
	a.decide(1, true, true, 0)
	a.decide(1, false, false, 0)
	a.grant("s", "one", 1)
	a.decide(1, true, true, 0)
	a.decide(1, false, false, 0)
	if _, remaining, _, err := a.Allowance(t.Context(), a.store, "r", "acme"); remaining != 3 || err != nil {
		t.Errorf("%d units remain, %v; want 3: two requests passed by the allowance", remaining, err)
	}
	v := a.Decide(t.Context(), a.store, tenant("acme"))
	if m := &v.Results[2]; m.Decision.Allowed {
		t.Errorf("a rule in shadow decides once about each request, and has none left: %+v", m.Decision)
	}
}

// Requests without a cost pass as long as the allowance has a unit, and take none.
func TestAllowancesWithoutACost(t *testing.T) {
	a := newAhead(t, mayHaveAhead("r", perHour(1)))
	free := func() policy.Verdict {
		v, err := a.DecideRule(t.Context(), a.store, policy.RuleRequest{Rule: "r", Key: []string{"acme"}, Cost: policy.NoCost})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if _, err := a.DecideRule(t.Context(), a.store, policy.RuleRequest{Rule: "r", Key: []string{"acme"}, Cost: 2, Debit: true}); err != nil {
		t.Fatal(err)
	}
	if v := free(); v.Allowed() {
		t.Errorf("a key with a debt: %s", v.String())
	}
	a.grant("r", "one", 1)
	if v := free(); !v.Allowed() || v.Tightest.Remaining != 1 {
		t.Errorf("a key with a debt and an allowance: %s", v.String())
	}
	a.decide(1, true, true, 0)
	if v := free(); v.Allowed() {
		t.Errorf("a key with a debt and nothing ahead: %s", v.String())
	}
	uploads := mayHaveAhead("uploads", perHour(1))
	uploads.Cost.Source = policy.CostRequestBytes
	a = newAhead(t, uploads, policy.Rule{Name: "calls", Limits: []*sluice.Limit{perHour(5)}})
	a.grant("uploads", "one", 1)
	if _, err := a.DecideRule(t.Context(), a.store, policy.RuleRequest{Rule: "uploads", Key: []string{"acme"}, Cost: 2, Debit: true}); err != nil {
		t.Fatal(err)
	}
	upload := func(bytes int64) policy.Verdict {
		q := tenant("acme")
		q.RequestBytes = bytes
		return a.Decide(t.Context(), a.store, q)
	}
	for i, bytes := range []int64{0, 1, 0} {
		if v := upload(bytes); v.Allowed() != (i < 2) || len(v.Charges()) != []int{1, 2, 0}[i] {
			t.Errorf("upload %d of %d bytes: %s, with %d charges", i, bytes, v.String(), len(v.Charges()))
		}
	}
	if v, err := a.DecideRule(t.Context(), a.store, policy.RuleRequest{Rule: "calls", Key: []string{"acme"}, Peek: true}); err != nil || v.Tightest.Remaining != 3 {
		t.Errorf("a denied upload charges another rule: %s, %v", v.String(), err)
	}
}

// A hold gives back to the allowance that paid. A rule with overdraws takes the whole cost from an allowance, or nothing.
func TestAllowancesWithHoldsAndOverdraws(t *testing.T) {
	r := mayHaveAhead("r", perHour(1))
	r.Overdraw = true
	a := newAhead(t, r)
	a.grant("r", "one", 5)
	a.decide(4, true, false, 0)
	a.decide(6, false, false, 0)
	hold := func(remaining int64) {
		t.Helper()
		q := tenant("acme")
		q.Cost, q.Hold = 3, time.Minute
		if v := a.Decide(t.Context(), a.store, q); !v.PaidAhead() || v.Tightest.Remaining != remaining {
			t.Errorf("a request with a hold: %s; want %d left", v.String(), remaining)
		}
	}
	hold(2)
	a.decide(3, false, false, 0)
	a.now = a.now.Add(2 * time.Minute)
	hold(2)
	a.decide(2, true, true, 0)
}

// A store that fails, or a fallback, pays nothing ahead: the first denial holds, and what else was charged comes back.
func TestAllowancesNeedTheStore(t *testing.T) {
	a := newAhead(t, mayHaveAhead("r", perHour(1)))
	a.grant("r", "one", 5)
	calls := 0
	failing := &stub{
		answer: func(*sluice.Request) sluice.Decision {
			return sluice.Decision{Reason: sluice.ReasonLimited, Limit: 1, RetryAfter: time.Second}
		},
		fails: func([]sluice.Request) error {
			if calls++; calls == 1 {
				return nil
			}
			return errors.New("down")
		},
	}
	if v := a.Decide(t.Context(), failing, tenant("acme")); v.Allowed() || v.Err != nil || v.RetryAfter() != time.Second || calls != 2 {
		t.Errorf("after %d calls: %s", calls, v.String())
	}
	degraded := &stub{answer: func(*sluice.Request) sluice.Decision {
		return sluice.Decision{Reason: sluice.ReasonLimited, Degraded: true}
	}}
	if v := a.Decide(t.Context(), degraded, tenant("acme")); v.Allowed() || degraded.batch > 0 {
		t.Errorf("a fallback that denies: %s, after %d further calls", v.String(), degraded.batch)
	}
	if f := a.Fallback(sluice.MustLimit("r/ahead/units", sluice.FixedWindow{Rate: sluice.PerHour(1)})); f != sluice.FallbackDeny {
		t.Errorf("while the store does not answer, an allowance is decided by %v", f)
	}
}

// The limit decides without its wait first, and then the allowance, once each. If another request has taken its units, the
// request is decided as without it, and its wait and its ban count.
func TestAllowancesThatAreUsedUpMeanwhile(t *testing.T) {
	r := mayHaveAhead("r", sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(60), Burst: 1}))
	r.MaxWait, r.Ban = 10*time.Second, &sluice.Ban{After: 2, For: time.Hour}
	shadow := policy.Rule{Name: "shadow", Limits: []*sluice.Limit{perHour(3)}, Shadow: true}
	a := newAhead(t, r, shadow)
	a.grant("r", "one", 1)
	var calls string
	race := func(ofLimit, ofAllowance string) policy.Verdict {
		calls = ""
		next := func(answers *string) bool {
			yes := (*answers)[0] == 'y'
			*answers = (*answers)[1:]
			return yes
		}
		return a.Decide(t.Context(), &stub{answer: func(q *sluice.Request) sluice.Decision {
			d := sluice.Decision{Allowed: true, Limit: 1}
			switch name := q.Limit.Name(); {
			case name == "shadow":
				calls += "s"
				return d
			case name == "r/ahead/units":
				d.Allowed = next(&ofAllowance)
				calls += "a"
			case q.MaxWait == sluice.NoWait:
				d.Allowed = next(&ofLimit)
				calls += "n"
			default:
				d.Allowed = next(&ofLimit)
				calls += "w"
			}
			if !d.Allowed {
				d.Reason = sluice.ReasonLimited
			}
			return d
		}}, tenant("acme"))
	}
	for _, c := range []struct {
		ofLimit, ofAllowance, calls string
		allowed, paid               bool
	}{
		{"y", "", "ns", true, false},
		{"n", "y", "nsa", true, true},
		{"ny", "n", "nsaw", true, false},
		{"nn", "n", "nsaw", false, false},
	} {
		v := race(c.ofLimit, c.ofAllowance)
		if v.Allowed() != c.allowed || v.PaidAhead() != c.paid || calls != c.calls {
			t.Errorf("the limit answers %s, and the allowance %s: allowed %v, paid %v, by the calls %s; want %v, %v, %s", c.ofLimit, c.ofAllowance, v.Allowed(), v.PaidAhead(), calls, c.allowed, c.paid, c.calls)
		}
	}
}

// Descriptors of a call have allowances too, each for its own key. What only looks takes nothing.
func TestAllowancesOfDescriptors(t *testing.T) {
	r := described("r", 1, "user")
	r.Ahead = &policy.Ahead{Units: 100, For: time.Hour}
	a := newAhead(t, r)
	a.grant("r", "one", 3)
	for i, c := range []struct {
		call []descriptors.Request
		want string
	}{
		{[]descriptors.Request{hits(1, "user=acme")}, "ok OK/0"},
		{[]descriptors.Request{hits(1, "user=acme"), hits(1, "user=other")}, "ok OK/2 OK/0"},
		{[]descriptors.Request{hits(1, "user=acme"), hits(1, "user=other")}, "no OVER/0 OVER/0"},
		{[]descriptors.Request{{Entries: entries("user=acme"), Look: true}}, "ok OK/0"},
		{[]descriptors.Request{hits(3, "user=acme")}, "no OVER/0"},
		{[]descriptors.Request{hits(2, "user=acme")}, "ok OK/0"},
		{[]descriptors.Request{hits(1, "user=acme")}, "no OVER/0"},
	} {
		v := a.DecideDescriptors(t.Context(), a.store, "d", c.call)
		if got := statuses(&v); got != c.want {
			t.Errorf("step %d: %s, want %s: %s", i, got, c.want, v.String())
		}
	}
}

// Rules whose limits never refuse requests for want of units have no allowances. Bounds are within reason.
func TestAheadThatDoesNotFit(t *testing.T) {
	limit := func(a sluice.Algorithm) func(*policy.Rule) {
		return func(r *policy.Rule) { r.Limits[0] = sluice.MustLimit("", a) }
	}
	for i, c := range []struct {
		field  string
		change func(*policy.Rule)
	}{
		{"Ahead.Units", func(r *policy.Rule) { r.Ahead.Units = 0 }},
		{"Ahead.For", func(r *policy.Rule) { r.Ahead.For = 400 * 24 * time.Hour }},
		{"Ahead", func(r *policy.Rule) { r.WhenLimited.Action = policy.Degrade }},
		{"Ahead", limit(sluice.LeakyBucket{Rate: sluice.PerSecond(1)})},
		{"Ahead", limit(sluice.Concurrency{Max: 1, TTL: time.Hour})},
		{"Ahead", limit(sluice.FixedWindow{Rate: sluice.PerHour(1), CountDenied: true})},
	} {
		r := mayHaveAhead("r", perHour(1))
		r.Key = []policy.Part{policy.Global()}
		c.change(&r)
		var bad *policy.RuleError
		if _, err := policy.New(policy.Options{Rules: []policy.Rule{r}}); !errors.As(err, &bad) || bad.Field != c.field {
			t.Errorf("mistake %d: %v; want one of %s", i, err, c.field)
		}
	}
	for _, text := range []string{"", "a 1", "a 0 5", "a b 5", "a 1 b", " 1 5", "a 1 5 6"} {
		if x, err := policy.ParseAllowance(text); err == nil {
			t.Errorf("%q is read as %+v", text, x)
		}
	}
}
