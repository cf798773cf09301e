package policy_test

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// Each mistake of a rule, a class or the options is an error that names its field.
func TestMistakesOfRulesNameTheField(t *testing.T) {
	two := sluice.MustLimit("x", sluice.TokenBucket{Rate: sluice.PerMinute(10)})
	for _, c := range []struct {
		field  string
		change func(*policy.Rule)
	}{
		{"Name", func(r *policy.Rule) { r.Name = "" }},
		{"Name", func(r *policy.Rule) { r.Name = "a/b" }},
		{"Name", func(r *policy.Rule) { r.Name = "-a" }},
		{"Name", func(r *policy.Rule) { r.Name = "other" }},
		{"Key", func(r *policy.Rule) { r.Key = nil }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{{}} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Header("")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Header("a b")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Header("host")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Cookie("a;b")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{{Source: source.Path, Name: "x"}} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{{Source: source.Path, IPv6Prefix: 48}} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{{Source: source.ClientIP, IPv6Prefix: 129}} }},
		{"Key[1]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Global(), policy.Param("id")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Global().IfMissing(9)} }},
		{"Limits", func(r *policy.Rule) { r.Limits = nil }},
		{"Limits[0]", func(r *policy.Rule) { r.Limits = []*sluice.Limit{nil} }},
		{"Limits[1].Name", func(r *policy.Rule) { r.Limits = []*sluice.Limit{two, two} }},
		{"Limits[0].Name", func(r *policy.Rule) {
			r.Limits = []*sluice.Limit{sluice.MustLimit("a/b", sluice.TokenBucket{Rate: sluice.PerMinute(10)})}
		}},
		{"Limits[1].Name", func(r *policy.Rule) {
			r.Limits = []*sluice.Limit{sluice.MustLimit("2", sluice.TokenBucket{Rate: sluice.PerMinute(10)}), sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(10)})}
		}},
		{"Floor", func(r *policy.Rule) { r.Floor = -1 }},
		{"Floor", func(r *policy.Rule) { r.Floor = 100 }},
		{"Cost.Units", func(r *policy.Rule) { r.Cost.Units = -1 }},
		{"Cost.Units", func(r *policy.Rule) { r.Cost.Units = 101 }},
		{"Cost.Units", func(r *policy.Rule) { r.Floor, r.Cost.Units = 50, 51 }},
		{"Cost.Header", func(r *policy.Rule) { r.Cost.Header = "a b" }},
		{"Cost.Max", func(r *policy.Rule) { r.Cost.Max = 5 }},
		{"Cost.Max", func(r *policy.Rule) { r.Cost = policy.Cost{Header: "A", Max: -1} }},
		{"MaxWait", func(r *policy.Rule) { r.MaxWait = -time.Second }},
		{"Ban.After", func(r *policy.Rule) { r.Ban = &sluice.Ban{For: time.Hour} }},
		{"Ban.For", func(r *policy.Rule) { r.Ban = &sluice.Ban{After: 1} }},
		{"Ban.Within", func(r *policy.Rule) { r.Ban = &sluice.Ban{After: 1, For: time.Hour, Within: -1} }},
		{"OnStoreError", func(r *policy.Rule) { r.OnStoreError = 9 }},
		{"WhenLimited.Status", func(r *policy.Rule) { r.WhenLimited.Status = 200 }},
		{"WhenLimited.Header[a b]", func(r *policy.Rule) { r.WhenLimited.Header = map[string]string{"a b": "c"} }},
		{"WhenLimited.Header[A]", func(r *policy.Rule) { r.WhenLimited.Header = map[string]string{"A": "b\r\nC: d"} }},
		{"WhenLimited.ContentType", func(r *policy.Rule) { r.WhenLimited.ContentType = "a\nb" }},
		{"Match.Paths[1]", func(r *policy.Rule) { r.Match.Paths = []string{"/a", "b"} }},
		{"Match.Methods[0]", func(r *policy.Rule) { r.Match.Methods = []string{"get"} }},
		{"Match.Hosts[0]", func(r *policy.Rule) { r.Match.Hosts = []string{"a.*.com"} }},
		{"Match.Headers[0]", func(r *policy.Rule) { r.Match.Headers = []policy.ValueMatch{{Name: "a b"}} }},
		{"Match.Headers[0]", func(r *policy.Rule) {
			r.Match.Headers = []policy.ValueMatch{{Name: "A", Absent: true, OneOf: []string{"b"}}}
		}},
		{"Match.If[0]", func(r *policy.Rule) { r.Match.If = []policy.Matcher{nil} }},
		{"Match.Cookies[0]", func(r *policy.Rule) { r.Match.Cookies = []policy.ValueMatch{{Name: "a;b"}} }},
		{"Match.Queries[1]", func(r *policy.Rule) { r.Match.Queries = []policy.ValueMatch{{Name: "a"}, {}} }},
		{"Match.Attributes[0]", func(r *policy.Rule) { r.Match.Attributes = []policy.ValueMatch{{}} }},
		{"Match.ClientIPs[1]", func(r *policy.Rule) { r.Match.ClientIPs = append(prefixes("10.0.0.0/8"), netip.Prefix{}) }},
		{"Match.ClientIPs[0]", func(r *policy.Rule) { r.Match.ClientIPs = prefixes("::ffff:0.0.0.0/95") }},
		{"Match.Classes[0]", func(r *policy.Rule) { r.Match.Classes = []string{"none"} }},
		{"Match.Pressure", func(r *policy.Rule) { r.Match.Pressure, r.Match.PressureOf = -1, "other" }},
		{"Match.Pressure", func(r *policy.Rule) { r.Match.Pressure, r.Match.PressureOf = math.NaN(), "other" }},
		{"Match.Pressure", func(r *policy.Rule) { r.Match.PressureOf = "other" }},
		{"Match.PressureOf", func(r *policy.Rule) { r.Match.Pressure = 1 }},
		{"Match.PressureOf", func(r *policy.Rule) { r.Match.Pressure, r.Match.PressureOf = 1, "r" }},
		{"Match.PressureOf", func(r *policy.Rule) { r.Match.Pressure, r.Match.PressureOf = 1, "none" }},
		{"Match.Unless[0]", func(r *policy.Rule) { r.Match.Unless = []policy.Match{{}} }},
		{"Match.Unless[1].Paths[0]", func(r *policy.Rule) { r.Match.Unless = []policy.Match{{Paths: []string{"/a"}}, {Paths: []string{"b"}}} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Claim("")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Attribute("")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Template("")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Template("text")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Template("{client_ip")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Template("client_ip}")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Template("{{client_ip}}")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Template("{nothing}")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Template("{param:id}")} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{policy.Template("{template:x}")} }},
		{"Candidate[0]", func(r *policy.Rule) { r.Candidate = []*sluice.Limit{nil} }},
		{"Candidate[1].Name", func(r *policy.Rule) { r.Candidate = []*sluice.Limit{two, two} }},
		{"Floor", func(r *policy.Rule) { r.Floor, r.Candidate = 10, []*sluice.Limit{two} }},
		{"Overrides[0].Key", func(r *policy.Rule) { r.Overrides = []policy.Override{{Key: []string{"a"}, Limits: bucket()}} }},
		{"Overrides[1].Key", func(r *policy.Rule) { r.Overrides = []policy.Override{{Limits: bucket()}, {Limits: bucket()}} }},
		{"Overrides[0].Key", func(r *policy.Rule) {
			r.Key = []policy.Part{policy.Header("X").IfMissing(policy.MissingDeny)}
			r.Overrides = []policy.Override{{Key: []string{""}, Limits: bucket()}}
		}},
		{"Overrides[0].Limits", func(r *policy.Rule) { r.Overrides = []policy.Override{{}} }},
		{"Overrides[0].Limits", func(r *policy.Rule) { r.Overrides = []policy.Override{{Limits: []*sluice.Limit{nil}}} }},
		{"Overrides[0].Limits[0].Name", func(r *policy.Rule) { r.Overrides = []policy.Override{{Limits: []*sluice.Limit{two}}} }},
		{"Floor", func(r *policy.Rule) {
			r.Floor = 10
			r.Overrides = []policy.Override{{Limits: []*sluice.Limit{sluice.MustLimit("", two.Algorithm())}}}
		}},
		{"AllowKeys[0]", func(r *policy.Rule) { r.AllowKeys = [][]string{{"a"}} }},
		{"DenyKeys[1]", func(r *policy.Rule) { r.DenyKeys = [][]string{{}, {}} }},
		{"DenyKeys[0]", func(r *policy.Rule) { r.AllowKeys, r.DenyKeys = [][]string{{}}, [][]string{{}} }},
		{"AllowIPs[0]", func(r *policy.Rule) { r.AllowIPs = []netip.Prefix{{}} }},
		{"DenyIPs[0]", func(r *policy.Rule) { r.DenyIPs = prefixes("::ffff:0.0.0.0/0") }},
		{"Cost.Source", func(r *policy.Rule) { r.Cost.Source = 99 }},
		{"Cost.Header", func(r *policy.Rule) { r.Cost.Source = policy.CostHeader }},
		{"Cost.Header", func(r *policy.Rule) { r.Cost.Source = policy.CostResponseHeader }},
		{"Cost.Header", func(r *policy.Rule) { r.Cost = policy.Cost{Source: policy.CostRequestBytes, Header: "X"} }},
		{"Cost.Units", func(r *policy.Rule) { r.Cost = policy.Cost{Source: policy.CostResponseBytes, Units: 5} }},
		{"Cost.Estimate", func(r *policy.Rule) { r.Cost.Estimate = 5 }},
		{"Cost.Estimate", func(r *policy.Rule) { r.Cost = policy.Cost{Source: policy.CostResponseBytes, Estimate: -5} }},
		{"Cost.Estimate", func(r *policy.Rule) { r.Cost = policy.Cost{Source: policy.CostResponseBytes, Estimate: 101} }},
		{"Cost.Max", func(r *policy.Rule) { r.Cost = policy.Cost{Source: policy.CostResponseBytes, Estimate: 5, Max: 4} }},
		{"Limits[0]", func(r *policy.Rule) {
			r.Cost.Source = policy.CostResponseBytes
			r.Limits = []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: 5})}
		}},
		{"CountStatus[1]", func(r *policy.Rule) { r.CountStatus = []policy.StatusRange{{400, 499}, {500, 499}} }},
		{"CountStatus[0]", func(r *policy.Rule) { r.CountStatus = []policy.StatusRange{{99, 499}} }},
		{"Reserved[0].Share", func(r *policy.Rule) { r.Reserved = []policy.Reserve{{Share: 100, For: []string{"critical"}}} }},
		{"Reserved[0].Units", func(r *policy.Rule) { r.Reserved = []policy.Reserve{{For: []string{"critical"}}} }},
		{"Reserved[0].Units", func(r *policy.Rule) { r.Reserved = []policy.Reserve{{Share: 5, Units: 5, For: []string{"critical"}}} }},
		{"Reserved[0].For", func(r *policy.Rule) { r.Reserved = []policy.Reserve{{Share: 20}} }},
		{"Reserved[0].For[1]", func(r *policy.Rule) { r.Reserved = []policy.Reserve{{Share: 20, For: []string{"critical", "none"}}} }},
		{"Reserved[0].For[0]", func(r *policy.Rule) { r.Reserved = []policy.Reserve{{Share: 20, For: []string{"probe"}}} }},
		{"Reserved", func(r *policy.Rule) { r.Reserved = []policy.Reserve{{Units: 100, For: []string{"critical"}}} }},
		{"Cost.Units", func(r *policy.Rule) {
			r.Reserved, r.Cost.Units = []policy.Reserve{{Share: 20, For: []string{"critical"}}}, 81
		}},
		{"MaxWaiting", func(r *policy.Rule) { r.MaxWaiting = -1 }},
		{"MaxWaiting", func(r *policy.Rule) { r.MaxWaiting = 1_000_001 }},
		{"MaxWaitingPerKey", func(r *policy.Rule) { r.MaxWaiting, r.MaxWaitingPerKey = 5, 6 }},
		{"MaxWaitingPerKey", func(r *policy.Rule) { r.MaxWaitingPerKey = -1 }},
		{"Bandwidth", func(r *policy.Rule) { r.Bandwidth = &policy.Bandwidth{} }},
		{"Bandwidth.Up", func(r *policy.Rule) { r.Bandwidth = &policy.Bandwidth{Up: sluice.PerSecond(-1)} }},
		{"Limits", func(r *policy.Rule) {
			r.Limits, r.Candidate, r.Bandwidth = nil, bucket(), &policy.Bandwidth{Down: sluice.PerSecond(1000)}
		}},
		{"Always", func(r *policy.Rule) { r.Always = true }},
		{"Always", func(r *policy.Rule) { r.Always, r.Limits, r.Candidate = true, nil, bucket() }},
		{"MaxWait", func(r *policy.Rule) { r.MaxWait, r.WhenLimited.Action = time.Second, policy.Mark }},
		{"WhenLimited.Action", func(r *policy.Rule) { r.WhenLimited.Action = 9 }},
		{"WhenLimited.Action", func(r *policy.Rule) { r.WhenLimited = policy.LimitedAction{Action: policy.Mark, Status: 500} }},
		{"WhenLimited.Status", func(r *policy.Rule) { r.WhenLimited = policy.LimitedAction{Action: policy.Degrade, Status: 199} }},
		{"WhenLimited.Upstream", func(r *policy.Rule) { r.WhenLimited.Upstream = "http://a" }},
		{"WhenLimited.Upstream", func(r *policy.Rule) {
			r.WhenLimited = policy.LimitedAction{Action: policy.Degrade, Upstream: "http://a", Body: "b"}
		}},
		{"WhenLimited.File", func(r *policy.Rule) { r.WhenLimited.Body, r.WhenLimited.File = "a", "b" }},
		{"WhenLimited.RequestHeader", func(r *policy.Rule) { r.WhenLimited.RequestHeader = map[string]string{"A": "b"} }},
		{"WhenLimited.RequestHeader[A b]", func(r *policy.Rule) {
			r.WhenLimited = policy.LimitedAction{Action: policy.Mark, RequestHeader: map[string]string{"A b": "b"}}
		}},
	} {
		rules := named("other", "r")
		c.change(&rules[1])
		p, err := policy.New(policy.Options{Rules: rules, Classes: []policy.Class{
			{Name: "critical", Match: policy.Match{Paths: []string{"/critical"}}},
			{Name: "probe", Match: policy.Match{Paths: []string{"/probe"}}, Bypass: true},
		}})
		var bad *policy.RuleError
		if p != nil || !errors.As(err, &bad) || bad.Field != c.field || bad.Index != 1 || bad.Rule != rules[1].Name {
			t.Errorf("want a mistake in %s of rule 1, got %v", c.field, err)
		}
		if bad != nil && (bad.Problem == "" || bad.Remedy == "" || strings.Contains(bad.Problem, "; ")) {
			t.Errorf("%s: the problem is %q and the remedy %q", c.field, bad.Problem, bad.Remedy)
		}
	}
	path := policy.Match{Paths: []string{"/a"}}
	for field, o := range map[string]policy.Options{
		"Default":                     {Default: policy.Degrade},
		"Classes[0].Name":             {Classes: []policy.Class{{Name: "a b", Match: path}}},
		"Classes[1].Name":             {Classes: []policy.Class{{Name: "a", Match: path}, {Name: "a"}}},
		"Classes[0].Match.Classes":    {Classes: []policy.Class{{Name: "a", Match: policy.Match{Classes: []string{"a"}}}}},
		"Classes[0].Match.Methods[0]": {Classes: []policy.Class{{Name: "a", Match: policy.Match{Methods: []string{"get"}}}}},
		"Classes[0].Match.PressureOf": {Classes: []policy.Class{{Name: "a", Match: policy.Match{Pressure: 1, PressureOf: "b"}}}},
		"OnStoreError":                {OnStoreError: 9}, "IPv6Prefix": {IPv6Prefix: 129},
	} {
		_, err := policy.New(o)
		var bad *policy.RuleError
		if !errors.As(err, &bad) || bad.Field != field || bad.Index != -1 {
			t.Errorf("want a mistake in %s of the options, got %v", field, err)
		}
	}
}

// All mistakes are reported at once.
func TestNewReportsAll(t *testing.T) {
	rules := named("a", "a", "c d")
	rules[0].Match.Paths = []string{"x", "/y/"}
	_, err := policy.New(policy.Options{Rules: rules, IPv6Prefix: -1})
	all, ok := err.(interface{ Unwrap() []error })
	if !ok || len(all.Unwrap()) != 5 {
		t.Errorf("New = %v", err)
	}
	want := "policy: IPv6Prefix is -1; give 1 to 128"
	if got := fmt.Sprint(all.Unwrap()[0]); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want = `policy: rule "a": Match.Paths[0] "x" does not begin with a slash; write "/x"`
	if got := fmt.Sprint(all.Unwrap()[1]); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Limits of different rules have separate states, even if they are one value.
func TestLimitsOfRulesHaveOwnStates(t *testing.T) {
	shared := sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(10)})
	name := sluice.MustLimit("burst", sluice.TokenBucket{Rate: sluice.PerSecond(5)})
	rules := named("a", "b", "a.b")
	for i := range rules {
		rules[i].Limits = []*sluice.Limit{shared, name, shared}
	}
	p := mustPolicy(t, policy.Options{Rules: rules})
	var got []string
	for _, r := range p.Rules() {
		for _, l := range r.Limits {
			got = append(got, l.Name())
		}
	}
	want := []string{"a", "a/burst", "a/3", "b", "b/burst", "b/3", "a.b", "a.b/burst", "a.b/3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if p.Rule("b") != p.Rules()[1] || p.Rule("none") != nil {
		t.Error("Rule does not find its rule")
	}
	if rules[0].Limits[0] != shared {
		t.Error("New changed the caller's rules")
	}
}
