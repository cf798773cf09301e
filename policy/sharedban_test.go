package policy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// A ban on a key that all clients have is an error, unless the rule says so. A request without a part never
// leads to a ban.
func TestBansOfStrangers(t *testing.T) {
	ban := &sluice.Ban{After: 1, For: time.Hour}
	for _, c := range []struct {
		key    []policy.Part
		shared bool
		ban    *sluice.Ban
		wrong  bool
	}{
		{[]policy.Part{policy.Global()}, false, ban, true},
		{[]policy.Part{policy.Constant("eu"), policy.Constant("a")}, false, ban, true},
		{[]policy.Part{policy.Route(), policy.Method(), policy.Host(), policy.Path()}, false, ban, true},
		{[]policy.Part{policy.Template("{path}/{host}")}, false, ban, true},
		{[]policy.Part{policy.Global()}, true, ban, false},
		{[]policy.Part{policy.Global()}, false, &sluice.Ban{}, false}, // by hand
		{[]policy.Part{policy.Global(), policy.ClientIP()}, false, ban, false},
		{[]policy.Part{policy.Header("X-User")}, false, ban, false},
	} {
		rules := named("r")
		rules[0].Key, rules[0].Ban, rules[0].BanShared = c.key, c.ban, c.shared
		_, err := policy.New(policy.Options{Rules: rules})
		var bad *policy.RuleError
		if wrong := errors.As(err, &bad); wrong != c.wrong || wrong && bad.Field != "Ban" {
			t.Errorf("%v, shared %v: %v", c.key, c.shared, err)
		}
		if _, err = policy.Single(rules[0]); (err != nil) != c.wrong {
			t.Errorf("single %v: %v", c.key, err)
		}
	}
}

func TestMissingPartsEarnNoBan(t *testing.T) {
	rules := named("r")
	rules[0].Limits = perDay(2)
	rules[0].Key = []policy.Part{policy.Header("X-User").IfRepeated(policy.RepeatedShared)}
	rules[0].Ban = &sluice.Ban{After: 1, For: 48 * time.Hour, Prolong: true}
	for name, p := range map[string]*policy.Policy{"policy": mustPolicy(t, policy.Options{Rules: rules}), "single": mustSingle(t, rules[0])} {
		store := mustMemory(t)
		decide := func(values ...string) sluice.Reason {
			v := p.Decide(context.Background(), store, &policy.Attributes{Values: several{"X-User": values}})
			return v.Reason
		}
		for range 6 {
			decide()
			decide("a", "b")
		}
		if r := decide(); r != sluice.ReasonLimited {
			t.Errorf("%s: a request without the part: %v", name, r)
		}
		for range 6 {
			decide("ann")
		}
		if r := decide("ann"); r != sluice.ReasonBanned {
			t.Errorf("%s: a request with the part: %v", name, r)
		}
	}
}
