package policy_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/policy"
)

// When the store fails, the fallback of the rule decides, or the fallback of the policy.
func TestFallbacksDecideForAFailingStore(t *testing.T) {
	broken := errors.New("broken")
	a, d, local, def := sluice.FallbackAllow, sluice.FallbackDeny, sluice.FallbackLocal, sluice.FallbackDefault
	for _, c := range []struct {
		options sluice.Fallback
		rules   [2]sluice.Fallback
		shadow  int // which rule
		err     error
		action  policy.Action
		rule    string
		reason  sluice.Reason
	}{
		{err: broken, rule: "a", shadow: -1},
		{err: broken, rules: [2]sluice.Fallback{def, d}, shadow: -1, action: policy.Deny, rule: "b"},
		{err: broken, options: d, shadow: -1, action: policy.Deny, rule: "a"},
		{err: broken, options: d, rules: [2]sluice.Fallback{a, a}, shadow: -1, rule: "a"},
		// This store has no local fallback, so requests for it are allowed.
		{err: broken, options: d, rules: [2]sluice.Fallback{local, a}, shadow: -1, rule: "a"},
		{err: broken, options: local, rules: [2]sluice.Fallback{def, d}, shadow: -1, action: policy.Deny, rule: "b"},
		{err: broken, rules: [2]sluice.Fallback{d, a}, shadow: 0, rule: "b"},
		{err: fmt.Errorf("%w: cut", sluice.ErrUnknownOutcome), rule: "a", shadow: -1},
		// An invalid request is not a store error, so no fallback applies.
		{err: &sluice.RequestError{Problem: "bad"}, shadow: -1, action: policy.Deny, rule: "a", reason: sluice.ReasonNever},
	} {
		rules := named("a", "b")
		for i := range rules {
			rules[i].OnStoreError, rules[i].Shadow = c.rules[i], i == c.shadow
		}
		p := mustPolicy(t, policy.Options{Rules: rules, OnStoreError: c.options})
		v := p.Decide(t.Context(), &stub{err: c.err}, &policy.Attributes{})
		if c.reason == 0 {
			c.reason = sluice.ReasonStoreError
		}
		if v.Action != c.action || v.Rule.Name != c.rule || v.Reason != c.reason || !errors.Is(v.Err, c.err) {
			t.Errorf("%+v: %v by %s, %v, %v", c, v.Action, v.Rule.Name, v.Reason, v.Err)
		}
		if len(v.Charges()) != 0 || len(v.Results) != 2 || v.Results[0].Decision != (sluice.Decision{}) {
			t.Errorf("%+v: results %+v", c, v.Results)
		}
	}
}

func TestFallbacksOfLimits(t *testing.T) {
	limits := func() []*sluice.Limit {
		return []*sluice.Limit{
			sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerMinute(10)}),
			sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(100)}),
			sluice.MustLimit("hourly", sluice.FixedWindow{Rate: sluice.PerHour(50)}),
		}
	}
	rules := named("plain", "login", "login.api", "files")
	for i := range rules {
		rules[i].Limits = limits()
	}
	rules[1].OnStoreError, rules[2].OnStoreError, rules[3].OnStoreError = sluice.FallbackDeny, sluice.FallbackLocal, sluice.FallbackAllow
	for _, c := range []struct {
		options sluice.Fallback
		want    []sluice.Fallback
		other   sluice.Fallback
	}{
		{sluice.FallbackDefault, []sluice.Fallback{sluice.FallbackAllow, sluice.FallbackDeny, sluice.FallbackLocal, sluice.FallbackAllow}, sluice.FallbackAllow},
		{sluice.FallbackLocal, []sluice.Fallback{sluice.FallbackLocal, sluice.FallbackDeny, sluice.FallbackLocal, sluice.FallbackAllow}, sluice.FallbackLocal},
	} {
		p := mustPolicy(t, policy.Options{Rules: rules, OnStoreError: c.options})
		for i, r := range p.Rules() {
			for _, l := range r.Limits {
				if got := p.Fallback(l); got != c.want[i] {
					t.Errorf("with %v: limit %q: %v, want %v", c.options, l.Name(), got, c.want[i])
				}
			}
		}
		for _, name := range []string{"", "log", "login/", "x/login"} {
			want := c.other
			if name == "login/" { // the rule's name ends before the slash
				want = sluice.FallbackDeny
			}
			if got := p.Fallback(sluice.MustLimit(name, sluice.Concurrency{Max: 1})); got != want {
				t.Errorf("with %v: limit %q, of no rule: %v, want %v", c.options, name, got, want)
			}
		}
	}
	if got := sluice.FallbackLocal.String(); got != "local" {
		t.Errorf("FallbackLocal is written %q", got)
	}
}

func TestAdvisoryStoreError(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		advisory, enforced sluice.Fallback
		action             policy.Action
		rule               string
	}{
		{sluice.FallbackAllow, sluice.FallbackAllow, policy.Allow, "enforced"},
		{sluice.FallbackDeny, sluice.FallbackAllow, policy.Degrade, "enforced"},
		{sluice.FallbackAllow, sluice.FallbackDeny, policy.Deny, "enforced"},
		{sluice.FallbackDeny, sluice.FallbackDeny, policy.Deny, "enforced"},
	} {
		rules := []policy.Rule{global("advisory", 5, policy.Degrade), global("enforced", 5, policy.Deny)}
		rules[0].OnStoreError, rules[1].OnStoreError = c.advisory, c.enforced
		v := mustPolicy(t, policy.Options{Rules: rules}).Decide(t.Context(), &stub{err: broken}, &policy.Attributes{})
		if v.Action != c.action || v.Rule.Name != c.rule || (v.Degrade != nil) != (c.action == policy.Degrade) || !errors.Is(v.Err, broken) {
			t.Errorf("%v and %v: %s", c.advisory, c.enforced, v.String())
		}
	}
	v := mustPolicy(t, policy.Options{Rules: []policy.Rule{global("advisory", 5, policy.Mark)}, OnStoreError: sluice.FallbackDeny}).
		Decide(t.Context(), &stub{err: broken}, &policy.Attributes{})
	if v.Action != policy.Mark || v.Rule != nil {
		t.Errorf("only an advisory rule: %s", v.String())
	}
}

// A denial of the store stays a denial, even if the store could not decide the other limits and they are allowed.
func TestDeniedInPart(t *testing.T) {
	broken := errors.New("one server is gone")
	denied := sluice.Decision{Reason: sluice.ReasonLimited, Limit: 5, RetryAfter: time.Minute, ResetAfter: time.Minute}
	for index, rule := range []string{"a", "b", "c"} {
		err := fmt.Errorf("a part: %w", &driver.DenialError{Denied: map[int]sluice.Decision{index: denied}, Err: broken})
		p := mustPolicy(t, policy.Options{Rules: named("a", "b", "c"), OnStoreError: sluice.FallbackAllow})
		v := p.Decide(t.Context(), &stub{err: err}, &policy.Attributes{})
		if v.Action != policy.Deny || v.Rule.Name != rule || v.Reason != sluice.ReasonLimited || v.Tightest != denied || !errors.Is(v.Err, broken) {
			t.Errorf("%v by %s, %v, %+v, %v", v.Action, v.Rule.Name, v.Reason, v.Tightest, v.Err)
		}
		if len(v.Charges()) != 0 {
			t.Errorf("%+v was charged", v.Charges())
		}
	}
}
