package servers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// A server in memory with a file of states is killed while it grants units ahead, and while a tenant uses them. After the restart, each
// grant that was answered counts, and at most the wanted grants. What the tenant used before the last save stays used, so only
// what it used later can be used again. In the end it gets exactly the rest.
func TestUnitsAheadSurviveKills(t *testing.T) {
	t.Parallel()
	const clockTolerance, perGrant = 5 * time.Millisecond, 40
	dir := t.TempDir()
	config := fmt.Sprintf("store: {memory: {file: '%s', save_every: 20ms}}\n", filepath.Join(dir, "states")) + `
rules:
  - name: tenants
    match: {path: /tenants}
    key: "header:X-Tenant"
    limit: {algorithm: fixed_window, rate: 1/30d}
    ahead: {units: 1000000, for: 24h}
`
	s := serveIn(t, dir, config)
	take := func(cost int64) (paid bool, err error) {
		_, text, err := s.try("api", http.MethodPost, "/v1/check", fmt.Sprintf(`{"rule": "tenants", "key": ["acme"], "cost": %d}`, cost))
		return strings.Contains(text, `"ahead":true`), err
	}
	var given, used, again int64
	for round := range redistest.Times(t, 4) {
		var answered, wanted, tried atomic.Int64
		var mu sync.Mutex
		var paid []time.Time
		var calls sync.WaitGroup
		calls.Go(func() {
			for {
				wanted.Add(perGrant)
				if status, _, err := s.grantAhead("tenants", "acme", perGrant); err != nil || status != http.StatusOK {
					return
				}
				answered.Add(perGrant)
			}
		})
		for range 3 {
			calls.Go(func() {
				for {
					tried.Add(1)
					is, err := take(1)
					if err != nil {
						return
					}
					if is {
						mu.Lock()
						paid = append(paid, time.Now())
						mu.Unlock()
					}
				}
			})
		}
		<-time.After(time.Duration(50+rand.IntN(150)) * time.Millisecond)
		s.Kill()
		calls.Wait()
		at, _ := savedAt(t, dir)
		least := used
		for _, when := range paid {
			if when.Before(at.Add(-clockTolerance)) {
				least++
			}
		}
		s = serveIn(t, dir, config)
		var units, now int64
		if _, err := fmt.Sscanf(s.unitsAhead("tenants", "acme"), "%d of %d", &now, &units); err != nil {
			t.Fatalf("round %d: after the restart: %v", round, err)
		}
		if units < given+answered.Load() || units > given+wanted.Load() {
			t.Errorf("round %d: after the restart, %d units are given; %d were before, %d were answered, and %d were wanted", round, units, given, answered.Load(), wanted.Load())
		}
		if now < least || now > used+tried.Load() {
			t.Errorf("round %d: after the restart, %d units are used; %d were before the last save, and %d were wanted", round, now, least, used+tried.Load())
		}
		again += max(0, used+int64(len(paid))-now)
		given, used = units, now
	}
	t.Logf("%d units were given, and %d could be used again after a kill", given, again)
	if paid, err := take(given - used); err != nil || !paid {
		t.Errorf("the rest of %d units is not paid: %v, %v", given-used, paid, err)
	}
	if paid, err := take(1); err != nil || paid {
		t.Errorf("after all units, one more is paid: %v, %v", paid, err)
	}
}
