package servers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// plannedAt is a policy of several algorithms for each tenant, 20 units a day and more with the plan gold, over a Redis.
func plannedAt(address string, gold int) string {
	return fmt.Sprintf(`store: {redis: {addresses: ['%s']}}
plans: {gold: {log: {rate: %[2]d/d}, window: {rate: %[2]d/d}, hybrid: {rate: %[2]d/d}}}
plan_from: "attribute:plan"
rules:
  - {name: log, match: {path: /log}, key: "header:X-Tenant", limit: {algorithm: sliding_log, rate: 20/d}}
  - {name: window, match: {path: /window}, key: "header:X-Tenant", limit: {algorithm: fixed_window, rate: 20/d, starts: first_request}}
  - {name: hybrid, match: {path: /hybrid}, key: "header:X-Tenant", limit: {algorithm: fixed_window, rate: 20/d, starts: first_request}, hybrid: {stranded: 20%%}}
`, address, gold)
}

// asPlan requests a unit of a rule for a tenant with a plan, and reports whether it passes.
func (s *server) asPlan(rule, tenant, plan string) (bool, error) {
	attributes := ""
	if plan != "" {
		attributes = fmt.Sprintf(`, "attributes": {"plan": %q}`, plan)
	}
	status, text, err := s.try("api", http.MethodPost, "/v1/check", fmt.Sprintf(`{"path": "/%s", "headers": {"X-Tenant": %q}%s}`, rule, tenant, attributes))
	var a struct{ Allowed bool }
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(text), &a) != nil {
		return false, fmt.Errorf("%d %s, %w", status, text, err)
	}
	return a.Allowed, nil
}

// admitted returns how many of many requests pass, through all servers at once.
func admitted(t *testing.T, servers []*follower, rule, tenant, plan string) int {
	t.Helper()
	var n atomic.Int64
	var all sync.WaitGroup
	for _, s := range servers {
		for range 2 {
			all.Go(func() {
				for range 30 {
					ok, err := s.asPlan(rule, tenant, plan)
					if err != nil {
						t.Errorf("a check of %s is answered %v", rule, err)
						return
					}
					if ok {
						n.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	return int(n.Load())
}

// Two servers of one Redis admit the units of a plan together, whichever of them got the override that names it, and whatever was
// used before. When the file changes the plan, overrides that name it follow.
func TestPlansOverTwoServers(t *testing.T) {
	t.Parallel()
	at := redistest.Start(t).Addr()
	both := []*follower{follow(t, plannedAt(at, 50)), follow(t, plannedAt(at, 50))}
	named := func(rule, tenant string) string {
		_, text := both[1].request("api", http.MethodPost, "/v1/peek", fmt.Sprintf(`{"rule": %q, "key": [%q]}`, rule, tenant))
		return text
	}
	for _, rule := range []string{"log", "window", "hybrid"} {
		// A hybrid limit may leave some of its units unused, and never admits more.
		expect := func(what string, got, want int) {
			t.Helper()
			least := want
			if rule == "hybrid" {
				least = want - 10
			}
			if got < least || got > want {
				t.Errorf("%s, the servers admit %d requests of rule %s, want %d to %d", what, got, rule, least, want)
			}
		}
		used := admitted(t, both, rule, "a", "")
		expect("without a plan", used, 20)
		used += admitted(t, both, rule, "a", "gold")
		expect("with the plan by an attribute", used, 50)
		expect("with the rule's numbers again", admitted(t, both, rule, "a", ""), 0)
		expect("with an unknown plan", admitted(t, both, rule, "b", "golden"), 20)

		used = admitted(t, both, rule, "c", "")
		if status, text := both[0].request("admin", http.MethodPut, "/v1/overrides", fmt.Sprintf(`{"rule": %q, "key": ["c"], "plan": "gold"}`, rule)); status != http.StatusOK {
			t.Fatalf("an override with a plan is answered %d %s", status, text)
		}
		process.Eventually(t, "the override on the other server", func() bool {
			return strings.Contains(named(rule, "c"), `"from":"call","plan":"gold"`)
		})
		used += admitted(t, both, rule, "c", "")
		expect("with the plan by an override", used, 50)
	}
	for _, s := range both {
		s.change(plannedAt(at, 60), "applied")
	}
	used := admitted(t, both, "log", "c", "")
	if used != 10 || !strings.Contains(named("log", "c"), `"capacity":60`) {
		t.Errorf("after the plan has ten units more, the servers admit %d, want 10: %s", used, named("log", "c"))
	}
}
