package resp

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const rules = `rules:
- {name: address, key: client_ip, limit: {algorithm: token_bucket, rate: 3/m}}
- {name: pair, key: [client_ip, "header:X-Plan"], limit: {algorithm: token_bucket, rate: 10/m}}
- {name: everybody, key: global, limit: {algorithm: fixed_window, rate: 5/m}}
- {name: slow, key: client_ip, limit: {algorithm: leaky_bucket, rate: 1/s, queue: 1}}
- {name: work, key: client_ip, limit: {algorithm: concurrency, max: 1}}
- {name: barred, key: client_ip, limit: {algorithm: token_bucket, rate: 1/h}, ban: {after: 2, for: 1m}}
- {name: plain, key: client_ip, limit: {algorithm: token_bucket, rate: 1/h}, when_limited: {action: mark}}
`

// SLUICE.CHECK decides by a rule, and replies in the form of the protocol's version.
func TestCheckDecidesByARule(t *testing.T) {
	t.Parallel()
	const (
		fine    = "{allowed:1 action:allow capacity:3 remaining:2 retry_after_ms:-1 reset_after_ms:20000 delay_ms:0 reason:}"
		list    = "[allowed 1 action allow capacity 10 remaining 9 retry_after_ms -1 reset_after_ms 6000 delay_ms 0 reason ]"
		refusal = "{allowed:0 action:deny capacity:3 remaining:2 retry_after_ms:-1 reset_after_ms:20000 delay_ms:0 reason:never}"
	)
	for _, c := range []struct {
		name  string
		steps [][2]string
	}{
		{"a map", [][2]string{{"HELLO 3", "{"}, {"SLUICE.CHECK address 192.0.2.1", fine}, {"sluice.check address 192.0.2.1 cost 4", refusal}}},
		{"a list", [][2]string{{"SLUICE.CHECK pair 192.0.2.1 gold", list}}},
		{"a peek", [][2]string{{"HELLO 3", "{"}, {"SLUICE.CHECK address 192.0.2.1 PEEK", "{allowed:1 action:allow capacity:3 remaining:3"}, {"SLUICE.CHECK address 192.0.2.1", fine}}},
		{"a cost", [][2]string{
			{"HELLO 3", "{"},
			{"SLUICE.CHECK everybody COST 4", "{allowed:1 action:allow capacity:5 remaining:1"},
			{"SLUICE.CHECK everybody PEEK COST 2", "{allowed:0 action:deny capacity:5 remaining:1 retry_after_ms:"},
			{"SLUICE.CHECK everybody", "{allowed:1"},
		}},
		{"a debit", [][2]string{
			{"HELLO 3", "{"},
			{"SLUICE.CHECK everybody COST 4 DEBIT", "{allowed:1 action:allow capacity:5 remaining:1"},
			{"SLUICE.CHECK everybody DEBIT COST 3", "{allowed:0 action:deny capacity:5 remaining:0"},
			{"SLUICE.CHECK everybody PEEK", "{allowed:0 action:deny capacity:5 remaining:0"},
			{"SLUICE.CHECK everybody PEEK DEBIT", "-ERR rule everybody: DEBIT is not expected"},
			{"SLUICE.CHECK work 192.0.2.1 DEBIT", "-ERR rule work: a leaky bucket or a concurrency limit cannot owe units"},
		}},
		{"a key may be an option", [][2]string{
			{"HELLO 3", "{"},
			{"SLUICE.CHECK pair 192.0.2.1 COST COST 3", "{allowed:1 action:allow capacity:10 remaining:7"},
			{"SLUICE.CHECK pair 192.0.2.1 PEEK PEEK", "{allowed:1 action:allow capacity:10 remaining:10"},
		}},
		{"spellings of an address are one key", [][2]string{{"HELLO 3", "{"}, {"SLUICE.CHECK address 192.0.2.1", fine}, {"SLUICE.CHECK address ::ffff:192.0.2.1", "{allowed:1 action:allow capacity:3 remaining:1"}}},
		{"a delay", [][2]string{{"HELLO 3", "{"}, {"SLUICE.CHECK slow 192.0.2.1", "{allowed:1"}, {"SLUICE.CHECK slow 192.0.2.1", "{allowed:1 action:allow capacity:2 remaining:0 retry_after_ms:-1 reset_after_ms:2000 delay_ms:1000"}}},
		{"leases are given back", [][2]string{{"HELLO 3", "{"}, {"SLUICE.CHECK work 192.0.2.1", "{allowed:1"}, {"SLUICE.CHECK work 192.0.2.1", "{allowed:1"}}},
		{"bans", [][2]string{
			{"HELLO 3", "{"},
			{"SLUICE.CHECK barred 192.0.2.1", "{allowed:1"},
			{"SLUICE.CHECK barred 192.0.2.1", "{allowed:0"},
			{"SLUICE.CHECK barred 192.0.2.1", "{allowed:0"},
			{"SLUICE.CHECK barred 192.0.2.1", "{allowed:0 action:deny capacity:1 remaining:0 retry_after_ms:3600000 reset_after_ms:3600000 delay_ms:0 reason:banned}"},
		}},
		{"marks", [][2]string{{"HELLO 3", "{"}, {"SLUICE.CHECK plain 192.0.2.1", "{allowed:1 action:allow capacity:null remaining:null"}, {"SLUICE.CHECK plain 192.0.2.1", "{allowed:1 action:mark"}}},
		{"the longest key", [][2]string{{"SLUICE.CHECK pair 192.0.2.1 " + strings.Repeat("x", 4096), "["}}},
		{"errors", [][2]string{
			{"SLUICE.CHECK", "-ERR wrong number of arguments"},
			{"SLUICE.CHECK other x", "-ERR there is no rule 'other'"},
			{"SLUICE.CHECK pair 192.0.2.1", "-ERR rule pair: the key and the rule's differ in their number of parts, 1 and 2: client_ip header:X-Plan"},
			{"SLUICE.CHECK address", "-ERR rule address: the key and the rule's differ in their number of parts, 0 and 1"},
			{"SLUICE.CHECK address 192.0.2.1 192.0.2.2", "-ERR rule address: 192.0.2.2 is not expected; its key is client_ip"},
			{"SLUICE.CHECK address 192.0.2.1 COST", "-ERR rule address: COST is not expected"},
			{"SLUICE.CHECK address 192.0.2.1 COST 0", "-ERR rule address: the cost 0 is not a whole number from 1 to"},
			{"SLUICE.CHECK address 192.0.2.1 COST -1", "-ERR rule address: the cost -1 is not"},
			{"SLUICE.CHECK address 192.0.2.1 COST 1 COST 1", "-ERR rule address: COST is not expected"},
			{"SLUICE.CHECK address nobody", "-ERR rule address: part 1 of the key, client_ip, "},
			{"SLUICE.CHECK pair 192.0.2.1 " + strings.Repeat("x", 4097), "-ERR rule pair: part 2 of the key has 4097 bytes; give up to 4096"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			to := serve(t, rules, nil).dial()
			for _, step := range c.steps {
				if got := to.do(strings.Fields(step[0])...); !strings.HasPrefix(got, step[1]) {
					t.Errorf("%s: %s, want %s", step[0], got, step[1])
				}
			}
		})
	}
}

// A rule and CL.THROTTLE never share a budget, whatever the rule's name is.
func TestThrottleIsNoRule(t *testing.T) {
	t.Parallel()
	s := serve(t, "rules: [{name: cl.throttle, key: \"header:X-User\", limit: {algorithm: token_bucket, rate: 1/h}}]\n", nil)
	to := s.dial()
	to.do("SLUICE.CHECK", "cl.throttle", "k")
	if got := to.do("CL.THROTTLE", "k", "0", "1", "3600"); got != "[0 1 0 -1 3600]" {
		t.Errorf("the rule of the same name took from CL.THROTTLE: %s", got)
	}
	if got := to.do("SLUICE.CHECK", ThrottleName, "k"); !strings.HasPrefix(got, "-ERR there is no rule") {
		t.Errorf("the name of CL.THROTTLE should not be a rule: %s", got)
	}
}

// Metrics, logs and pressure get each verdict, and no peek.
func TestObserversGetVerdictsOfCheck(t *testing.T) {
	t.Parallel()
	s := serve(t, rules, nil)
	to := s.dial()
	to.do("SLUICE.CHECK", "address", "192.0.2.1")
	to.do("SLUICE.CHECK", "address", "192.0.2.1", "PEEK")
	to.do("SLUICE.CHECK", "address", "192.0.2.1", "COST", "3")
	if got := fmt.Sprint(s.seen()); got != "[address allow address deny]" {
		t.Errorf("the observed verdicts are %s", got)
	}
	s.pass(time.Minute)
}
