package live

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// deny returns a verdict with one denial for each key of a rule.
func deny(rule string, role policy.Role, keys ...string) *policy.Verdict {
	r := &policy.Rule{Name: rule}
	l := sluice.MustLimit(rule, sluice.TokenBucket{Rate: sluice.PerMinute(5)})
	v := &policy.Verdict{Action: policy.Deny, Rule: r}
	for _, k := range keys {
		v.Results = append(v.Results, policy.LimitResult{
			Rule: r, Role: role, Request: sluice.Request{Limit: l, Key: sluice.StringKey(k), Cost: 1},
			Decision: sluice.Decision{Reason: sluice.ReasonLimited, Limit: 5, RetryAfter: time.Second},
		})
	}
	return v
}

// clocked returns a DeniedKeys whose clock is *now.
func clocked(now *time.Time) *DeniedKeys {
	d := NewDeniedKeys(func(k sluice.Key) string { return fmt.Sprintf("%016x", len(k.Text())) })
	d.now = func() time.Time { return *now }
	d.Newly.now = d.now
	return d
}

// names returns the texts of listed keys.
func names(keys []DeniedKey) string {
	var texts []string
	for _, k := range keys {
		texts = append(texts, k.Key.Text())
	}
	return strings.Join(texts, " ")
}

func TestDeniedKeys(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := clocked(&now)
	began := now
	d.Observe(deny("login", policy.RoleEnforced, "ann"))
	now = now.Add(time.Second)
	d.Observe(deny("login", policy.RoleShadow, "bob"))
	d.Observe(deny("api", policy.RoleEnforced, "ann"))
	now = now.Add(time.Second)
	d.Observe(deny("login", policy.RoleEnforced, "ann"))

	keys, more := d.Latest("login", 10)
	if names(keys) != "ann bob" || more {
		t.Fatalf("the latest keys of a rule: %+v, %t", keys, more)
	}
	if k := keys[0]; k.Denials != 2 || k.Error != 0 || !k.First.Equal(began) || !k.Last.Equal(now) || k.Limit != "login" ||
		k.Reason != sluice.ReasonLimited || k.Digest != "0000000000000003" {
		t.Errorf("a key that was denied twice: %+v", k)
	}
	if keys[1].Role != policy.RoleShadow {
		t.Errorf("a key of a rule in shadow: %+v", keys[1])
	}
	if keys, more := d.Latest("", 2); names(keys) != "ann ann" || !more {
		t.Errorf("the latest two of all rules: %+v, %t", keys, more)
	}
}

// Keys that were denied in the last minute come before keys with more denials. Keys are forgotten after two windows.
func TestMostDeniedKeys(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := clocked(&now)
	for range 9 {
		d.Observe(deny("login", policy.RoleEnforced, "before"))
	}
	for _, step := range []struct {
		after time.Duration
		deny  []string
		want  string
	}{
		{0, []string{"one"}, "before one"},
		{time.Minute, []string{"two", "two"}, "two before one"},
		{0, []string{"one"}, "one two before"}, // the times are equal; "one" has two denials, too, and is first by its name
		{-time.Hour, nil, "before one two"},    // a clock that is set back
		{time.Hour, nil, "one two before"},
		{window - time.Minute, []string{"new"}, "new before one two"},
		{window, []string{"new"}, "new"},
		{2 * window, nil, ""},
	} {
		now = now.Add(step.after)
		d.Observe(deny("login", policy.RoleEnforced, step.deny...))
		if keys, _ := d.Most("login", 10); names(keys) != step.want {
			t.Errorf("at %v: the keys are %q, want %q", now.Sub(time.Unix(1e9, 0)), names(keys), step.want)
		}
	}
}

// Verdicts without a denial by a limit leave nothing behind.
func TestDeniedKeysAreThoseOfDenials(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := clocked(&now)
	allowed, failed, listed := deny("a", policy.RoleEnforced, "x"), deny("a", policy.RoleEnforced, "x"), deny("a", policy.RoleEnforced, "x")
	allowed.Results[0].Decision.Allowed = true
	failed.Err = errors.New("the store is down")
	listed.Results[0].Listed = policy.ListDeny
	for _, v := range []*policy.Verdict{allowed, failed, listed, deny("a", policy.RoleCandidate, "x"), {Action: policy.Deny}} {
		d.Observe(v)
	}
	if keys, _ := d.Latest("", 10); len(keys) > 0 {
		t.Errorf("verdicts without a denial by a limit leave keys: %+v", keys)
	}
}

// A flood of keys takes a bounded number of counters, and hides no key that is denied often. Keys with long texts are kept as
// a digest.
func TestDeniedKeysAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := clocked(&now)
	for i := range 20 * mostCounters {
		now = now.Add(time.Microsecond)
		d.Observe(deny("a", policy.RoleEnforced, fmt.Sprint(i)))
		if i%100 == 50 {
			d.Observe(deny("a", policy.RoleEnforced, "often"))
		}
	}
	if n := len((*d.rules.Load())["a"].now.byKey); n != mostCounters {
		t.Errorf("%d keys are counted", n)
	}
	if keys, more := d.Latest("a", 1); names(keys) != fmt.Sprint(20*mostCounters-1) || !more {
		t.Errorf("the latest key is %q", names(keys))
	}
	if keys, _ := d.Most("a", 1); names(keys) != "often" || keys[0].Denials-keys[0].Error < 80 {
		t.Errorf("of a flood of keys, the key that is denied most is %+v", keys)
	}
	long := strings.Repeat("k", longestDeniedKey+1)
	d.Observe(deny("b", policy.RoleEnforced, long, long))
	if keys, _ := d.Latest("b", 1); keys[0].Key != (sluice.Key{}) || keys[0].Digest != "0000000000000101" || keys[0].Denials != 2 {
		t.Errorf("a long key is listed as %+v", keys[0])
	}
}

// The counters of rules are bounded. A rule that denies nothing for a minute gives way.
func TestDenyingRulesAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := clocked(&now)
	for i := range mostDenying {
		d.Observe(deny(fmt.Sprint(i), policy.RoleEnforced, "ann"))
		now = now.Add(time.Millisecond)
	}
	d.Observe(deny("new", policy.RoleEnforced, "ann"))
	if keys, _ := d.Latest("new", 1); len(keys) > 0 || d.Uncounted() != 1 {
		t.Errorf("one rule too many has keys %+v, and %d denials are reported as not counted", keys, d.Uncounted())
	}
	now = now.Add(quiet)
	d.Observe(deny("new", policy.RoleEnforced, "ann"))
	if keys, _ := d.Latest("new", 1); len(keys) != 1 {
		t.Error("a rule does not get the counters of a rule that is quiet")
	}
	if keys, _ := d.Latest("0", 1); len(keys) > 0 {
		t.Errorf("the rule that gave way has keys %+v", keys)
	}
	if keys, _ := d.Latest("1", 1); len(keys) != 1 {
		t.Error("another rule lost its counters")
	}
}

// BenchmarkDeniedKeys measures what a denial costs: of a key that has a counter, and of keys that take the counters of others.
func BenchmarkDeniedKeys(b *testing.B) {
	for _, keys := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			d := NewDeniedKeys(func(sluice.Key) string { return "" })
			verdicts := make([]*policy.Verdict, keys)
			for i := range verdicts {
				verdicts[i] = deny("a", policy.RoleEnforced, fmt.Sprint("key-", i))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				d.Observe(verdicts[i%keys])
			}
		})
	}
}
