package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/policy"
)

// TestVerdictString checks that the text has the action, the reason and the tightest numbers, and never a key.
func TestVerdictString(t *testing.T) {
	rules := named("a", "b")
	rules[0].Shadow, rules[0].Floor = true, 3
	rules[1].Key = []policy.Part{policy.Header("X-Key").IfMissing(policy.MissingDeny)}
	p := mustPolicy(t, policy.Options{Rules: rules})
	secret := &policy.Attributes{Values: values{header: map[string]string{"X-Key": "hunter2"}}}
	deny := func(*sluice.Request) sluice.Decision { return denied(sluice.ReasonLimited, time.Second) }
	wait := func(*sluice.Request) sluice.Decision {
		return sluice.Decision{Allowed: true, Limit: 10, Remaining: 2, Delay: time.Second, ResetAfter: time.Minute, Degraded: true, Overflow: true}
	}
	for _, c := range []struct {
		store *stub
		a     *policy.Attributes
		want  string
	}{
		{&stub{answer: deny}, secret, "deny: rule b: limited, 0 of 10 remain, retry after 1s"},
		{&stub{answer: wait}, secret, "allow: the tightest rule is b, decided by a fallback, after a delay of 1s"},
		{&stub{err: errors.New("broken")}, secret, "allow: the store could not decide; on_store_error of rule b is allow"},
		{&stub{}, &policy.Attributes{}, "deny: rule b: the key's part header:X-Key is missing"},
		{&stub{}, &policy.Attributes{Cost: -1, Values: secret.Values}, `deny: sluice: request to limit "a": the cost is negative; to give units back, settle or cancel their charge`},
	} {
		v := p.Decide(t.Context(), c.store, c.a)
		if got := v.String(); got != c.want {
			t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
		}
		if strings.Contains(v.String(), "hunter2") {
			t.Error("the text holds the key")
		}
	}
	if got := (&policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonNoRule}).String(); got != "deny: no rule matches" {
		t.Errorf("without a rule, the text is %q", got)
	}
	part := policy.Header("X-Key")
	nameless := policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonMissingKey, Rule: &policy.Rule{}, Missing: &part}
	if got := nameless.String(); got != "deny: rule : the key's part header:X-Key is missing" {
		t.Errorf("of a rule without a name, the text is %q", got)
	}
}

// TestVerdictStringNamesTheRule checks that the text names rules that degrade, mark or list, and bypassing classes.
func TestVerdictStringNamesTheRule(t *testing.T) {
	probe := policy.Class{Name: "probe", Match: policy.Match{Paths: []string{"/probe"}}, Bypass: true}
	rules := []policy.Rule{global("advisory", 10, policy.Degrade), global("mark", 10, policy.Mark), global("enforced", 10, policy.Deny)}
	rules[2].DenyIPs = prefixes("198.51.100.0/24")
	p := mustPolicy(t, policy.Options{Rules: rules, Classes: []policy.Class{probe}})
	answer := func(denies string) *stub {
		return &stub{answer: func(r *sluice.Request) sluice.Decision {
			if r.Limit.Name() == denies {
				return denied(sluice.ReasonLimited, time.Second)
			}
			return allowed(5, 10, 0)
		}}
	}
	for _, c := range []struct {
		store *stub
		a     *policy.Attributes
		want  string
	}{
		{answer("advisory"), from("192.0.2.1"), "degrade: rule advisory, 5 of 10 remain"},
		{answer("mark"), from("192.0.2.1"), "mark: rule mark, 5 of 10 remain"},
		{answer("enforced"), from("192.0.2.1"), "deny: rule enforced: limited, 0 of 10 remain, retry after 1s"},
		{answer(""), from("198.51.100.7"), "deny: rule enforced: listed"},
		{answer(""), &policy.Attributes{Path: "/probe"}, "allow: class probe bypasses all rules"},
	} {
		v := p.Decide(t.Context(), c.store, c.a)
		if got := v.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestVerdictsHaveTheirPolicy checks that each verdict names the policy that made it.
func TestVerdictsHaveTheirPolicy(t *testing.T) {
	probe := policy.Class{Name: "probe", Bypass: true}
	deaf := global("deaf", 10, policy.Deny)
	deaf.Match.Paths = []string{"/deaf"}
	p := mustPolicy(t, policy.Options{
		Rules: []policy.Rule{global("all", 10, policy.Deny), deaf, described("d", 10, "k")}, Classes: []policy.Class{probe},
	})
	broken := &stub{err: errors.New("broken")}
	for name, decide := range map[string]func() *policy.Verdict{
		"Decide":  func() *policy.Verdict { v := p.Decide(t.Context(), &stub{}, from("192.0.2.1")); return &v },
		"Peek":    func() *policy.Verdict { v := p.Peek(t.Context(), &stub{}, from("192.0.2.1")); return &v },
		"a store": func() *policy.Verdict { v := p.Decide(t.Context(), broken, from("192.0.2.1")); return &v },
		"refused": func() *policy.Verdict { v := p.Decide(t.Context(), &stub{}, &policy.Attributes{Cost: -1}); return &v },
		"DecideRule": func() *policy.Verdict {
			v, err := p.DecideRule(t.Context(), &stub{}, policy.RuleRequest{Rule: "all"})
			if err != nil {
				t.Fatal(err)
			}
			return &v
		},
		"a class": func() *policy.Verdict {
			v, err := p.DecideRule(t.Context(), &stub{}, policy.RuleRequest{Rule: "all", Class: "probe"})
			if err != nil {
				t.Fatal(err)
			}
			return &v
		},
		"descriptors":            func() *policy.Verdict { return &decideIn(t, p, "d", hits(1, "k=v")).Verdict },
		"descriptors of no rule": func() *policy.Verdict { return &decideIn(t, p, "d", hits(1, "other=v")).Verdict },
		"no descriptors":         func() *policy.Verdict { return &decideIn(t, p, "d").Verdict },
		"refused descriptors":    func() *policy.Verdict { return &decideIn(t, p, "d", hits(-1, "k=v")).Verdict },
		"another domain":         func() *policy.Verdict { return &decideIn(t, p, "other", hits(1, "k=v")).Verdict },
	} {
		if decide().Policy() != p {
			t.Errorf("%s: the verdict has another policy", name)
		}
	}
}

func decideIn(t *testing.T, p *policy.Policy, domain string, q ...descriptors.Request) *policy.DescriptorVerdict {
	t.Helper()
	v := p.DecideDescriptors(t.Context(), &stub{}, domain, q)
	return &v
}
