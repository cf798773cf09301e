package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

func TestExplain(t *testing.T) {
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
		{&stub{answer: deny}, secret, `deny: rule b: limited
  a: token_bucket(100/m) (in shadow): cost 1, floor 3, denied: limited, 0 of 10 remain, retry after 1s
  b: token_bucket(100/m): cost 1, denied: limited, 0 of 10 remain, retry after 1s`},
		{&stub{answer: wait}, secret, `allow: the tightest rule is b, after a delay of 1s
  a: token_bucket(100/m) (in shadow): cost 1, floor 3, allowed, 2 of 10 remain, delay 1s, full again after 1m0s, degraded, in a budget shared by the keys that found no room
  b: token_bucket(100/m): cost 1, allowed, 2 of 10 remain, delay 1s, full again after 1m0s, degraded, in a budget shared by the keys that found no room`},
		{&stub{err: errors.New("broken")}, secret, `allow: the store could not decide; rule b says allow then
  a: token_bucket(100/m) (in shadow): cost 1, floor 3, not decided
  b: token_bucket(100/m): cost 1, not decided`},
		{&stub{}, &policy.Attributes{}, `deny: rule b: the key's part header:X-Key is missing`},
		{&stub{}, &policy.Attributes{Cost: -1, Values: secret.Values}, `deny: sluice: request to limit "a": the cost is negative; to give units back, settle or cancel their charge`},
	} {
		v := p.Decide(t.Context(), c.store, c.a)
		if got := v.Explain(); got != c.want {
			t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
		}
		if strings.Contains(v.Explain(), "hunter2") {
			t.Error("the explanation holds the key")
		}
	}
	if got := (&policy.Verdict{Action: policy.Deny, Reason: sluice.ReasonNoRule}).Explain(); got != "deny: no rule matches" {
		t.Error(got)
	}
}

// TestExplainMore: what is told of classes, overrides, lists, floors, candidates and soft actions.
func TestExplainMore(t *testing.T) {
	critical := policy.Class{Name: "critical", Match: policy.Match{Methods: []string{"PUT"}}}
	probe := policy.Class{Name: "probe", Match: policy.Match{Paths: []string{"/probe"}}, Bypass: true}
	rules := []policy.Rule{global("soft", 10, policy.Degrade), global("mark", 10, policy.Mark), global("hard", 10, policy.Deny), global("lists", 10, policy.Deny)}
	rules[0].Overrides = []policy.Override{{Limits: perDay(20)}}
	rules[1].Cost.Source = policy.CostResponseBytes
	rules[2].Reserved = []policy.Reserve{{Share: 20, For: []string{"critical"}}}
	rules[2].Candidate = perDay(5)
	rules[3].AllowIPs, rules[3].DenyIPs = prefixes("192.0.2.0/24"), prefixes("198.51.100.0/24")
	p := mustPolicy(t, policy.Options{Rules: rules, Classes: []policy.Class{critical, probe}})
	answer := func(denies string) *stub {
		return &stub{answer: func(r *sluice.Request) sluice.Decision {
			if r.Limit.Name() == denies {
				return denied(sluice.ReasonLimited, time.Second)
			}
			return allowed(5, 10, 0)
		}}
	}
	a := from("192.0.2.1")
	put := *a
	put.Method = "PUT"
	for _, c := range []struct {
		store *stub
		a     *policy.Attributes
		want  string
	}{
		{answer("soft"), &put, `degrade: rule soft
  class critical
  soft: token_bucket(20/d) (to degrade) (an override): cost 1, denied: limited, 0 of 10 remain, retry after 1s
  mark: token_bucket(10/d) (to mark): cost 1, to be settled, allowed, 5 of 10 remain
  hard: token_bucket(10/d): cost 1, allowed, 5 of 10 remain
  hard/candidate/1: token_bucket(5/d) (a candidate): cost 1, allowed, 5 of 10 remain
  lists: token_bucket(10/d): on the allow list`},
		{answer("mark"), a, `mark: rule mark
  soft: token_bucket(20/d) (to degrade) (an override): cost 1, allowed, 5 of 10 remain
  mark: token_bucket(10/d) (to mark): cost 1, to be settled, denied: limited, 0 of 10 remain, retry after 1s
  hard: token_bucket(10/d): cost 1, floor 2, allowed, 5 of 10 remain
  hard/candidate/1: token_bucket(5/d) (a candidate): cost 1, floor 1, allowed, 5 of 10 remain
  lists: token_bucket(10/d): on the allow list`},
		{answer("hard"), a, `deny: rule hard: limited
  soft: token_bucket(20/d) (to degrade) (an override): cost 1, allowed, 5 of 10 remain, given back
  mark: token_bucket(10/d) (to mark): cost 1, to be settled, allowed, 5 of 10 remain, given back
  hard: token_bucket(10/d): cost 1, floor 2, denied: limited, 0 of 10 remain, retry after 1s
  hard/candidate/1: token_bucket(5/d) (a candidate): cost 1, floor 1, allowed, 5 of 10 remain
  lists: token_bucket(10/d): on the allow list`},
		{answer(""), from("198.51.100.7"), `deny: rule lists: listed`},
		{answer(""), &policy.Attributes{Path: "/probe"}, `allow: class probe meets no rule`},
	} {
		v := p.Decide(t.Context(), c.store, c.a)
		if got := v.Explain(); got != c.want {
			t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
		}
	}
	met := p.Meets(from("198.51.100.7"))
	for i, want := range []string{
		"soft: token_bucket(20/d) (to degrade) (an override): cost 1, not decided",
		"mark: token_bucket(10/d) (to mark): cost 1, to be settled, not decided",
		"hard: token_bucket(10/d): cost 1, floor 2, not decided",
		"hard/candidate/1: token_bucket(5/d) (a candidate): cost 1, floor 1, not decided",
		"lists: token_bucket(10/d): on the deny list",
	} {
		if got := met[i].Explain(); got != want {
			t.Errorf("met %q, want %q", got, want)
		}
	}
}
