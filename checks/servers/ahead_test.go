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

// aheadAt is a policy of tenants that may have units ahead, over a Redis.
func aheadAt(address string) string {
	return fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", address) + `
rules:
  - name: tenants
    match: {path: /tenants}
    key: "header:X-Tenant"
    limits: [{algorithm: token_bucket, rate: 7/d}, {name: two, algorithm: sliding_log, rate: 1000/d}]
    ahead: {units: 100, for: 24h}
  - name: hot
    match: {path: /hot}
    key: "header:X-Tenant"
    limit: {algorithm: fixed_window, rate: 90/30d}
    hybrid: true
    ahead: {units: 100, for: 24h}
`
}

// grantAhead gives units ahead to a tenant.
func (s *server) grantAhead(rule, tenant string, units int) (status int, text string, err error) {
	return s.try("admin", http.MethodPost, "/v1/grant", fmt.Sprintf(`{"rule": %q, "key": [%q], "units": %d, "ahead": true}`, rule, tenant, units))
}

// unitsAhead returns what a tenant has ahead, as "used of units".
func (s *server) unitsAhead(rule, tenant string) string {
	_, text, err := s.try("admin", http.MethodGet, "/v1/usage?rule="+rule+"&key="+tenant, "")
	var u struct{ Ahead struct{ Units, Used int } }
	if err == nil {
		err = json.Unmarshal([]byte(text), &u)
	}
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d of %d", u.Ahead.Used, u.Ahead.Units)
}

// Two servers of one Redis grant units ahead at the same time, and none is lost. Under load they admit exactly the units of the limit and
// the units ahead, of a hybrid limit too. When one server is killed, what it has answered is used, and no unit comes back.
func TestUnitsAheadOnTwoServers(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	servers := []*server{serve(t, aheadAt(r.Addr())), serve(t, aheadAt(r.Addr()))}
	for _, rule := range []string{"tenants", "hot"} {
		var grants sync.WaitGroup
		for i := range 9 {
			grants.Go(func() {
				if status, text, err := servers[i%2].grantAhead(rule, "acme", 10); err != nil || status != http.StatusOK {
					t.Errorf("grant %d is answered %d %s, %v", i, status, text, err)
				}
			})
		}
		grants.Wait()
		if status, text, err := servers[0].grantAhead(rule, "acme", 11); err != nil || status != http.StatusUnprocessableEntity || !strings.Contains(text, "give at most 10 now") {
			t.Errorf("a grant beyond the bound is answered %d %s, %v", status, text, err)
		}
		for i, s := range servers {
			process.Eventually(t, fmt.Sprintf("the grants on server %d", i), func() bool { return s.unitsAhead(rule, "acme") == "0 of 90" })
		}
	}
	// load takes units of a tenant until nothing is left, and returns how many a limit and an allowance gave.
	load := func(rule, tenant string, kill int64) (limit, ahead, unknown int64) {
		var all [3]atomic.Int64
		var calls sync.WaitGroup
		for i := range 8 {
			calls.Go(func() {
				for denied := 0; denied < 3; {
					status, text, err := servers[i%2].try("api", http.MethodPost, "/v1/check", fmt.Sprintf(`{"rule": %q, "key": [%q]}`, rule, tenant))
					switch {
					case err != nil || status != http.StatusOK:
						all[2].Add(1)
						return
					case strings.Contains(text, `"ahead":true`):
						if all[1].Add(1) == kill {
							servers[1].Kill()
						}
					case strings.Contains(text, `"allowed":true,"action"`):
						all[0].Add(1)
					default:
						denied++
					}
				}
			})
		}
		calls.Wait()
		return all[0].Load(), all[1].Load(), all[2].Load()
	}
	if limit, ahead, unknown := load("tenants", "acme", 0); limit != 7 || ahead != 90 || unknown != 0 {
		t.Errorf("the limit gives %d units, and the allowance %d; want 7 and 90; %d calls failed", limit, ahead, unknown)
	}
	if limit, ahead, unknown := load("hot", "acme", 0); limit > 90 || limit < 1 || ahead != 90 || unknown != 0 {
		t.Errorf("a hybrid limit gives %d units, and the allowance %d; want at most 90, and 90; %d calls failed", limit, ahead, unknown)
	}
	if status, text, err := servers[0].grantAhead("tenants", "zoe", 60); err != nil || status != http.StatusOK {
		t.Fatalf("a grant is answered %d %s, %v", status, text, err)
	}
	process.Eventually(t, "the grant on the other server", func() bool { return servers[1].unitsAhead("tenants", "zoe") == "0 of 60" })
	limit, ahead, unknown := load("tenants", "zoe", 20)
	if limit > 7 || ahead > 60 || limit+ahead+unknown < 67 || unknown < 1 {
		t.Errorf("when a server is killed, the limit gives %d units and the allowance %d, and the answers of %d calls are unknown; want 67 in all", limit, ahead, unknown)
	}
	servers[1] = serve(t, aheadAt(r.Addr()))
	for i, s := range servers {
		if got := s.unitsAhead("tenants", "zoe"); got != "60 of 60" {
			t.Errorf("after the restart, server %d finds %s used", i, got)
		}
	}
	if limit, ahead, _ := load("tenants", "zoe", 0); limit+ahead != 0 {
		t.Errorf("after the restart, %d units are left", limit+ahead)
	}
}
