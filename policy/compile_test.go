package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

func TestNewMistakes(t *testing.T) {
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
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{{Source: policy.FromPath, Name: "x"}} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{{Source: policy.FromPath, IPv6Prefix: 48}} }},
		{"Key[0]", func(r *policy.Rule) { r.Key = []policy.Part{{Source: policy.FromClientIP, IPv6Prefix: 129}} }},
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
		{"WhenLimited.Header", func(r *policy.Rule) { r.WhenLimited.Header = map[string]string{"a b": "c"} }},
		{"WhenLimited.Header", func(r *policy.Rule) { r.WhenLimited.Header = map[string]string{"A": "b\r\nC: d"} }},
		{"WhenLimited.ContentType", func(r *policy.Rule) { r.WhenLimited.ContentType = "a\nb" }},
		{"Match.Paths[1]", func(r *policy.Rule) { r.Match.Paths = []string{"/a", "b"} }},
		{"Match.Methods[0]", func(r *policy.Rule) { r.Match.Methods = []string{"get"} }},
		{"Match.Hosts[0]", func(r *policy.Rule) { r.Match.Hosts = []string{"a.*.com"} }},
		{"Match.Headers[0]", func(r *policy.Rule) { r.Match.Headers = []policy.HeaderMatch{{Name: "a b"}} }},
		{"Match.Headers[0]", func(r *policy.Rule) {
			r.Match.Headers = []policy.HeaderMatch{{Name: "A", Absent: true, OneOf: []string{"b"}}}
		}},
		{"Match.If[0]", func(r *policy.Rule) { r.Match.If = []policy.Matcher{nil} }},
	} {
		rules := named("other", "r")
		c.change(&rules[1])
		p, err := policy.New(policy.Options{Rules: rules})
		var bad *policy.RuleError
		if p != nil || !errors.As(err, &bad) || bad.Field != c.field || bad.Index != 1 || bad.Rule != rules[1].Name {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	for field, o := range map[string]policy.Options{
		"Default": {Default: 9}, "OnStoreError": {OnStoreError: 9}, "IPv6Prefix": {IPv6Prefix: 129},
	} {
		_, err := policy.New(o)
		var bad *policy.RuleError
		if !errors.As(err, &bad) || bad.Field != field || bad.Index != -1 {
			t.Errorf("%s: %v", field, err)
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

// Limits of different rules keep their state apart, also when they are one value.
func TestLimitNames(t *testing.T) {
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
		t.Error("New changed the rules it was given")
	}
}
