package policy_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/policy"
)

// FuzzWildcards compares wildcards with regular expressions.
func FuzzWildcards(f *testing.F) {
	for _, seed := range [][2]string{{"a*", "ab"}, {"*", ""}, {"a*b*c", "abbc"}, {"**", "x"}, {"a*a", "a"}, {"*ab*ab*", "abab"}, {"a*b", "ab\n"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, value string) {
		if !strings.Contains(pattern, "*") || len(pattern) > 64 {
			return
		}
		p, err := policy.New(policy.Options{Rules: []policy.Rule{described("r", 1, "k="+strings.TrimSuffix(pattern, "!"))}})
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(strings.TrimSuffix(pattern, "!"), "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		e, err := regexp.Compile(`(?s)\A` + strings.Join(parts, ".*") + `\z`)
		if err != nil {
			return // not UTF-8
		}
		if strings.ToValidUTF8(pattern, "") != pattern || strings.ToValidUTF8(value, "") != value {
			return // regular expressions replace other bytes
		}
		got := p.TraceDescriptor("d", []descriptors.Entry{{Key: "k", Value: value}}).Rule != nil
		if want := e.MatchString(value); got != want {
			t.Errorf("%q matches %q: %v, want %v", pattern, value, got, want)
		}
	})
}

// matchSlowly returns the rule that a descriptor matches, by the precedence as it is documented: at each entry the exact
// value, then the first wildcard, then any value, among the rules whose entries before were chosen too.
func matchSlowly(rules []policy.Rule, entries []descriptors.Entry) string {
	left := rules
	for i, e := range entries {
		choose := func(fits func(x descriptors.PatternEntry) bool) (chosen descriptors.PatternEntry, ok bool) {
			for _, r := range left {
				if all := r.Match.Descriptor.Entries; len(all) > i && all[i].Key == e.Key && fits(all[i]) {
					return all[i], true
				}
			}
			return chosen, false
		}
		chosen, ok := choose(func(x descriptors.PatternEntry) bool { return x.Value != "" && x.Value == e.Value })
		if !ok {
			chosen, ok = choose(func(x descriptors.PatternEntry) bool {
				parts := strings.Split(x.Value, "*")
				for j := range parts {
					parts[j] = regexp.QuoteMeta(parts[j])
				}
				return len(parts) > 1 && regexp.MustCompile(`(?s)\A`+strings.Join(parts, ".*")+`\z`).MatchString(e.Value)
			})
		}
		if !ok {
			chosen, ok = choose(func(x descriptors.PatternEntry) bool { return x.Value == "" })
		}
		if !ok {
			return ""
		}
		var next []policy.Rule
		for _, r := range left {
			if all := r.Match.Descriptor.Entries; len(all) > i && all[i].Key == chosen.Key && all[i].Value == chosen.Value {
				next = append(next, r)
			}
		}
		left = next
	}
	for _, r := range left {
		if len(r.Match.Descriptor.Entries) == len(entries) {
			return r.Name
		}
	}
	return ""
}

// TestDescriptorPrecedence compares random trees with a slow search.
func TestDescriptorPrecedence(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(texts ...string) string { return texts[rng.IntN(len(texts))] }
	for range 300 {
		var rules []policy.Rule
		seen := map[string]bool{}
		for len(rules) < 12 {
			var entries []string
			for range 1 + rng.IntN(3) {
				entries = append(entries, pick("a", "b")+"="+pick("", "x", "xy", "x*", "*y", "x*y", "*"))
			}
			if text := strings.Join(entries, " "); !seen[text] {
				seen[text] = true
				rules = append(rules, described("r"+string(rune('a'+len(rules))), 1, entries...))
			}
		}
		p := mustPolicy(t, policy.Options{Rules: rules})
		for range 50 {
			var q []descriptors.Entry
			for range 1 + rng.IntN(4) {
				q = append(q, descriptors.Entry{Key: pick("a", "b"), Value: pick("", "x", "y", "xy", "xzy", "z", "x*")})
			}
			got := ""
			if r := p.TraceDescriptor("d", q).Rule; r != nil {
				got = r.Name
			}
			if want := matchSlowly(rules, q); got != want {
				t.Fatalf("%v matches %q, want %q", q, got, want)
			}
		}
	}
}
