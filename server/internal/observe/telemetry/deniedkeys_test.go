package telemetry

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
	d.Observe(deny("login", policy.RoleEnforced, "ann"))
	now = now.Add(time.Second)
	d.Observe(deny("login", policy.RoleShadow, "bob"))
	d.Observe(deny("api", policy.RoleEnforced, "ann"))
	now = now.Add(time.Second)
	d.Observe(deny("login", policy.RoleEnforced, "ann"))

	keys, more := d.List("login", 10)
	if names(keys) != "ann bob" || more {
		t.Fatalf("%+v, %t", keys, more)
	}
	if k := keys[0]; k.Denials != 2 || !k.Last.Equal(now) || k.Limit != "login" || k.Reason != sluice.ReasonLimited || k.Digest != "0000000000000003" {
		t.Errorf("%+v", k)
	}
	if keys[1].Role != policy.RoleShadow {
		t.Errorf("%+v", keys[1])
	}
	if keys, more := d.List("", 2); names(keys) != "ann ann" || !more {
		t.Errorf("the latest two of all rules: %+v, %t", keys, more)
	}
	now = now.Add(time.Hour)
	if keys, _ := d.List("", 10); names(keys) != "ann" {
		t.Errorf("after an hour: %+v", keys)
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
	if keys, _ := d.List("", 10); len(keys) > 0 {
		t.Errorf("%+v", keys)
	}
}

// A flood of keys takes a bounded number of entries and bytes; keys with long texts are kept as a digest.
func TestDeniedKeysAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := clocked(&now)
	for i := range 3 * mostDeniedKeys {
		d.Observe(deny("a", policy.RoleEnforced, fmt.Sprint(i)))
	}
	if len(d.byID) != mostDeniedKeys || d.order.Len() != mostDeniedKeys {
		t.Errorf("%d and %d keys are kept", len(d.byID), d.order.Len())
	}
	if keys, more := d.List("a", 1); names(keys) != fmt.Sprint(3*mostDeniedKeys-1) || !more {
		t.Errorf("the latest is %q", names(keys))
	}
	long := strings.Repeat("k", longestDeniedKey+1)
	d.Observe(deny("a", policy.RoleEnforced, long))
	d.Observe(deny("a", policy.RoleEnforced, long))
	if keys, _ := d.List("a", 1); keys[0].Key != (sluice.Key{}) || keys[0].Digest != "0000000000000101" || keys[0].Denials != 2 {
		t.Errorf("a long key is listed as %+v", keys[0])
	}
	now = now.Add(2 * time.Hour)
	for range mostDeniedKeys {
		d.Observe(deny("a", policy.RoleEnforced, "one"))
	}
	if len(d.byID) != 1 {
		t.Errorf("%d keys are kept two hours later", len(d.byID))
	}
}
