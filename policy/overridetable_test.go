package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// perDayTerms reads terms such as 5, units per day for each limit of a rule, or the words unlimited and deny.
func perDayTerms(limits int) func(rule, text string) (policy.Terms, error) {
	return func(_, text string) (t policy.Terms, err error) {
		switch text {
		case "unlimited":
			t.List = policy.ListAllow
		case "deny":
			t.List = policy.ListDeny
		default:
			var n int64
			if err := json.Unmarshal([]byte(text), &n); err != nil {
				return t, err
			}
			for range limits {
				t.Limits = append(t.Limits, sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(n), Opened: true}))
			}
		}
		return t, nil
	}
}

// opened returns a rule of a window a day, by tenant, with a list, and an override of the file for gold.
func opened() policy.Rule {
	window := func(n int64) []*sluice.Limit {
		return []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(n), Opened: true})}
	}
	return policy.Rule{
		Name: "r", Key: []policy.Part{policy.Header("X-Tenant")}, Limits: window(2),
		Overrides: []policy.Override{{Key: []string{"gold"}, Limits: window(100)}},
		AllowKeys: [][]string{{"friend"}}, DenyKeys: [][]string{{"foe"}},
	}
}

// An override by call comes after the lists of a rule, and before the overrides of the file and the rule's own numbers.
func TestOverridesByCallComeBeforeTheFile(t *testing.T) {
	table := policy.NewOverrideTable()
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{opened()}, Overrides: table, Terms: perDayTerms(1)})
	set := func(tenant, text string) {
		t.Helper()
		if err := table.Set("r", sluice.StringKey(tenant), text, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		tenant, text string
		capacity     int64
		from         policy.NumbersFrom
		list         policy.List
	}{
		{"silver", "", 2, policy.FromRule, policy.NotListed},
		{"silver", "7", 7, policy.FromCall, policy.NotListed},
		{"gold", "", 100, policy.FromFile, policy.NotListed},
		{"gold", "7", 7, policy.FromCall, policy.NotListed},
		{"gold", "unlimited", 2, policy.FromCall, policy.ListAllow},
		{"gold", "deny", 2, policy.FromCall, policy.ListDeny},
		{"foe", "unlimited", 2, policy.FromRule, policy.ListDeny},
		{"friend", "deny", 2, policy.FromRule, policy.ListAllow},
		{"gold", "no number", 100, policy.FromFile, policy.NotListed}, // terms that do not fit do not apply
	} {
		if c.text != "" {
			set(c.tenant, c.text)
		}
		m := p.LimitsFor(tenant(c.tenant))[0]
		if m.Request.Limit.Capacity() != c.capacity || m.From != c.from || m.Listed != c.list || m.Override != (c.from != policy.FromRule) {
			t.Errorf("%s with %q: %v from %v, list %q", c.tenant, c.text, m.Request.Limit, m.From, m.Listed)
		}
	}
	v := p.Decide(t.Context(), &stub{}, tenant("foe"))
	if v.Reason != sluice.ReasonListed {
		t.Errorf("a key on the list to deny gets %s", v.String())
	}
	if !table.Remove("r", sluice.StringKey("silver")) || table.Remove("r", sluice.StringKey("silver")) {
		t.Error("Remove does not report whether there was an override")
	}
	if m := p.LimitsFor(tenant("silver"))[0]; m.Override || m.Request.Limit.Capacity() != 2 {
		t.Errorf("without its override, silver has %v", m.Request.Limit)
	}
}

// Units that a key has used stay used, and the numbers of a later policy complete the terms.
func TestOverridesByCallKeepState(t *testing.T) {
	table, store := policy.NewOverrideTable(), mustMemory(t)
	one := mustPolicy(t, policy.Options{Rules: []policy.Rule{opened()}, Overrides: table, Terms: perDayTerms(1)})
	two := mustPolicy(t, policy.Options{Rules: []policy.Rule{opened()}, Overrides: table, Terms: perDayTerms(1), Earlier: one})
	var limit *sluice.Limit
	for i, step := range []struct {
		text      string
		remaining int64
		allowed   bool
	}{{"", 1, true}, {"", 0, true}, {"", 0, false}, {"10", 7, true}, {"10", 6, true}, {"3", 0, false}, {"10", 5, true}, {"", 0, false}} {
		p := []*policy.Policy{one, two}[i%2]
		if step.text == "" {
			table.Remove("r", sluice.StringKey("x"))
		} else if err := table.Set("r", sluice.StringKey("x"), step.text, time.Time{}); err != nil {
			t.Fatal(err)
		}
		v := p.Decide(t.Context(), store, tenant("x"))
		if v.Allowed() != step.allowed || v.Tightest.Remaining != step.remaining {
			t.Errorf("step %d: %s", i, v.String())
		}
		if step.text == "10" && i < 5 {
			if l := v.Results[0].Request.Limit; limit != nil && l != limit {
				t.Errorf("step %d: two policies have two limits for the same terms", i)
			} else {
				limit = l
			}
		}
	}
}

// Overrides end at their time, and not before.
func TestOverridesByCallEnd(t *testing.T) {
	table, now := policy.NewOverrideTable(), time.Unix(1_800_000_000, 0)
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{opened()}, Overrides: table, Terms: perDayTerms(1)})
	for tenant, until := range map[string]time.Time{"a": now.Add(2 * time.Second), "b": now.Add(5 * time.Second), "c": {}, "d": now.Add(1500 * time.Millisecond)} {
		if err := table.Set("r", sluice.StringKey(tenant), "9", until); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		after time.Duration
		in    string
		ended int
	}{{0, "abcd", 0}, {time.Second, "abcd", 0}, {2 * time.Second, "bc", 2}, {-time.Hour, "bc", 0}, {4 * time.Second, "bc", 0}, {time.Hour, "c", 1}, {2 * time.Hour, "c", 0}} {
		if n := table.Expire(now.Add(step.after)); n != step.ended {
			t.Errorf("after %v, %d overrides ended, want %d", step.after, n, step.ended)
		}
		in := ""
		for _, name := range strings.Split("abcd", "") {
			if p.LimitsFor(tenant(name))[0].Override {
				in += name
			}
		}
		if in != step.in || table.Len() != len(in) {
			t.Errorf("after %v, %q have overrides of %d, want %q", step.after, in, table.Len(), step.in)
		}
	}
}

// Replace takes over exactly the other table's overrides, and keeps the limits of equal terms.
func TestOverridesByCallAreReplaced(t *testing.T) {
	table := policy.NewOverrideTable()
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{opened()}, Overrides: table, Terms: perDayTerms(1)})
	fill := func(table *policy.OverrideTable, rule string, of map[string]string) {
		for tenant, text := range of {
			if err := table.Set(rule, sluice.StringKey(tenant), text, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(table, "r", map[string]string{"a": "5", "b": "6"})
	fill(table, "gone", map[string]string{"a": "5"})
	before := p.LimitsFor(tenant("a"))[0].Request.Limit
	next := policy.NewOverrideTable()
	fill(next, "r", map[string]string{"b": "5", "c": "8"})
	fill(next, "later", map[string]string{"z": "1"})
	table.Replace(next)
	for name, want := range map[string]int64{"a": 2, "b": 5, "c": 8} {
		if l := p.LimitsFor(tenant(name))[0].Request.Limit; l.Capacity() != want || name == "b" && l != before {
			t.Errorf("%s has %v, want %d, and the same limit as before for the same terms", name, l, want)
		}
	}
	if got := fmt.Sprint(table.Rules(), table.Len()); got != "[later r] 3" {
		t.Errorf("the table has %s", got)
	}
}

// A policy says why terms do not fit, and a key that is too long is refused.
func TestTermsThatDoNotFit(t *testing.T) {
	rule := opened()
	rule.Limits = append(rule.Limits, sluice.MustLimit("second", sluice.FixedWindow{Rate: sluice.PerDay(1)}))
	rule.Overrides = nil
	p := mustPolicy(t, policy.Options{Rules: []policy.Rule{rule}, Overrides: policy.NewOverrideTable(), Terms: perDayTerms(1)})
	var unknown *policy.RuleRequestError
	var bad *policy.RuleError
	if _, err := p.CheckTerms("s", "1"); !errors.As(err, &unknown) || !unknown.Unknown {
		t.Errorf("an unknown rule: %v", err)
	}
	if _, err := p.CheckTerms("r", "1"); !errors.As(err, &bad) || bad.Field != "Terms.Limits" {
		t.Errorf("one limit of two: %v", err)
	}
	if _, err := p.CheckTerms("r", "unlimited"); err != nil {
		t.Errorf("no limits: %v", err)
	}
	if err := policy.NewOverrideTable().Set("r", sluice.StringKey(strings.Repeat("k", 1<<16)), "1", time.Time{}); err == nil {
		t.Error("a key of 65,536 bytes has an override")
	}
}

// Pages have each key once, in one order, and only keys with the prefix.
func TestPagesOfOverrides(t *testing.T) {
	table := policy.NewOverrideTable()
	for i := range 2500 {
		if err := table.Set("r", sluice.NewKey("v1", fmt.Sprint("t", i)), "1", time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if page := table.Page("s", "", sluice.Key{}, 10); len(page) > 0 || table.Remove("s", sluice.Key{}) {
		t.Errorf("a rule without overrides has %d", len(page))
	}
	for prefix, want := range map[string]int{"": 2500, "t1": 1 + 10 + 100 + 1000, "t249": 11, "x": 0, "v1": 2500} {
		seen, after := map[sluice.Key]bool{}, sluice.Key{}
		for {
			page := table.Page("r", prefix, after, 100)
			for _, k := range page {
				if seen[k] {
					t.Fatalf("prefix %q: a key is on two pages", prefix)
				}
				seen[k] = true
			}
			if len(page) < 100 {
				break
			}
			after = page[99]
		}
		if len(seen) != want {
			t.Errorf("prefix %q: %d keys, want %d", prefix, len(seen), want)
		}
	}
}

// While overrides change and policies replace each other, each decision has the numbers of one text, for its own key.
func TestOverridesByCallNeverMix(t *testing.T) {
	table := policy.NewOverrideTable()
	rule := opened()
	rule.Limits = append(rule.Limits, sluice.MustLimit("second", sluice.FixedWindow{Rate: sluice.PerDay(2)}))
	rule.Overrides = nil
	o := policy.Options{Rules: []policy.Rule{rule}, Overrides: table, Terms: perDayTerms(2)}
	policies := []*policy.Policy{mustPolicy(t, o), mustPolicy(t, o)}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for worker := range 2 {
		readers.Go(func() {
			for i := worker; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				n := i % 20
				both := policies[i%2].LimitsFor(tenant(fmt.Sprint("t", n)))
				if a, b := both[0].Request.Limit.Capacity(), both[1].Request.Limit.Capacity(); a != b || a != 2 && a%20 != int64(n) {
					t.Errorf("t%d has %d and %d", n, a, b)
					return
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 5000 {
		n := random.IntN(20)
		k := sluice.StringKey(fmt.Sprint("t", n))
		if i%5 == 0 {
			table.Remove("r", k)
		} else if err := table.Set("r", k, fmt.Sprint(100+20*random.IntN(300)+n), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	readers.Wait()
}
