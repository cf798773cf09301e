package servers

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// hybridExample returns the settings of examples/hybrid.yaml, over a store in Redis. The window is longer than a test takes on
// a busy machine.
func hybridExample(t *testing.T, r *redistest.Server) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "hybrid.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("store: {redis: {addresses: ['%s']}}\nupstream: echo\n", r.Addr()) +
		strings.ReplaceAll(ownSetting.ReplaceAllString(string(text), ""), "300/30s", "300/10m")
}

// as sends a request of a tenant through the proxy of a server, and reports whether it passed.
func (s *server) as(tenant, path string) (bool, error) {
	r, err := http.NewRequest(http.MethodGet, s.URLs["proxy"]+path, http.NoBody)
	if err != nil {
		return false, err
	}
	r.Header.Set("X-Tenant", tenant)
	res, err := s.client.Do(r)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusTooManyRequests:
		return false, nil
	}
	return false, fmt.Errorf("%s answers %d", path, res.StatusCode)
}

// flood sends requests of a tenant to all servers at once, so many to each, and returns how many passed.
func flood(t *testing.T, tenant, path string, each int, servers ...*server) int {
	t.Helper()
	const clients = 4
	var passed atomic.Int64
	var all sync.WaitGroup
	for _, s := range servers {
		for range clients {
			all.Go(func() {
				for range each / clients {
					ok, err := s.as(tenant, path)
					if err != nil {
						t.Error(err)
						return
					}
					if ok {
						passed.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	return int(passed.Load())
}

// number returns one of the figures as a number; 0 if it is not there.
func (s *server) number(series string) float64 {
	s.tb.Helper()
	x, err := strconv.ParseFloat(s.figure(series), 64)
	if err != nil {
		return 0
	}
	return x
}

// useAll sends requests to servers until all 300 units of a window are used, of which so many are used before. It returns
// how long that took.
func useAll(t *testing.T, got int, servers ...*server) time.Duration {
	t.Helper()
	took := process.Eventually(t, "the use of all units", func() bool {
		got += flood(t, "acme", "/api/orders", 20, servers...)
		return got >= 300
	})
	if got += flood(t, "acme", "/api/orders", 20, servers...); got != 300 {
		t.Errorf("%d were admitted in a window of 300", got)
	}
	return took
}

// Two servers with the file of examples/hybrid.yaml: all that they admit together stays within the bound that the file
// states, and they decide most requests by themselves.
func TestTwoServersShareAHybridLimit(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	config := hybridExample(t, r)
	a, b := serve(t, config), serve(t, config)
	const of = `limit="per-tenant",rule="per-tenant"`
	// Each of them gets units soon after its first requests.
	got := flood(t, "acme", "/api/orders", 600, a, b)
	if under := int(a.number(`sluice_hybrid_under_units{` + of + `}`)); got > 300 || got < 300-under || under > 32 {
		t.Errorf("1200 requests through two servers: %d were admitted, want up to 300 and at most %d less", got, under)
	}
	// What one of them has in hand and does not spend is returned after a synchronisation.
	useAll(t, got, a, b)
	var local float64
	for _, s := range []*server{a, b} {
		local += s.number(`sluice_hybrid_decisions_total{by="local",` + of + `}`)
		if got := s.figure(`sluice_hybrid_excess_units{` + of + `}`); got != "0" {
			t.Errorf("the excess is %s", got)
		}
		if got := s.figure(`sluice_hybrid_over_units{` + of + `}`); got != "0" {
			t.Errorf("the limit may be exceeded by %s", got)
		}
	}
	if local < 100 {
		t.Errorf("the servers decided %v requests by themselves", local)
	}
}

// Local count with periodic synchronisation, as users of the source systems know it: a server with a credit of the whole limit
// admits at once what a single server would, whatever Redis does, and all servers together admit at most the limit and the
// credit of each server.
func TestLocalCountWithSynchronisation(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	config := hybridExample(t, r)
	servers := []*server{serve(t, config), serve(t, config)}
	got := flood(t, "acme", "/images/1", 800, servers...)
	if most := 300 + 2*300; got > most || got < 300 {
		t.Errorf("1600 requests through two servers: %d were admitted, want 300 to %d", got, most)
	}
	t.Logf("of a limit of 300 with a credit of 300, two servers admitted %d at once", got)
	// After a synchronisation both know what the other one admitted.
	const of = `{limit="local-count",rule="local-count"}`
	for _, s := range servers {
		process.Eventually(t, "the report of what was spent on credit", func() bool {
			return s.number("sluice_hybrid_unreported_units"+of) == 0 && s.number("sluice_hybrid_calls_total"+of) > 0
		})
		if got := s.figure("sluice_hybrid_over_units" + of); got != "300" && got != "600" {
			t.Errorf("the limit may be exceeded by %s, want the credit of each server known to hold the key", got)
		}
	}
	if more := flood(t, "acme", "/images/1", 40, servers...); more != 0 {
		t.Errorf("after the synchronisation %d more were admitted", more)
	}
	excess := max(servers[0].number("sluice_hybrid_excess_units"+of), servers[1].number("sluice_hybrid_excess_units"+of))
	if int(excess) != got-300 {
		t.Errorf("the servers measured an excess of %v, and %d were admitted of 300", excess, got)
	}
}

// A server that drains returns its units before it ends, so that other servers need not wait until they expire.
func TestDrainReturnsUnits(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	config := hybridExample(t, r)
	a, b := serve(t, config), serve(t, config)
	got := flood(t, "acme", "/api/orders", 120, a)
	process.Eventually(t, "a grant that is not spent", func() bool {
		got += flood(t, "acme", "/api/orders", 4, a)
		return a.number(`sluice_hybrid_unspent_units{limit="per-tenant",rule="per-tenant"}`) > 4
	})
	if code := a.drain(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if took := useAll(t, got, b); took > 3*time.Second {
		t.Errorf("the units of the drained server were available only after %v, and its grants last 4s", took)
	}
}

// A reload keeps the units of limits that did not change, and operators see them.
func TestReloadKeepsUnits(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	config := hybridExample(t, r)
	dir := t.TempDir()
	s := serveIn(t, dir, config)
	got := flood(t, "acme", "/api/orders", 120, s)
	s.reloadWith(dir, config+"  - {name: more, match: {path: /more}, key: client_ip, limit: {algorithm: token_bucket, rate: 5/s}}\n")
	if lost := s.figure(`sluice_hybrid_units_total{limit="per-tenant",outcome="lost",rule="per-tenant"}`); lost != "0" {
		t.Errorf("the reload lost %s units", lost)
	}
	useAll(t, got, s)
	out, err := exec.Command(process.Program(), "hybrid", "--server", s.URLs["admin"]).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "never more than 300 in each 10m; up to 30 may be left unused\n") {
		t.Errorf("sluice hybrid prints %s, %v", out, err)
	}
	if status, text := s.ready(); status != http.StatusOK || !strings.Contains(text, "store: ok") {
		t.Errorf("/readyz answers %d %q", status, text)
	}
}

// reloadWith replaces the configuration of a server, and waits until it is in force.
func (s *server) reloadWith(dir, config string) {
	s.tb.Helper()
	const applied = `sluice_config_reloads_total{outcome="applied"}`
	before := s.number(applied)
	if err := os.WriteFile(filepath.Join(dir, "sluice.yaml"), []byte("version: 1\n"+freePorts+patient(config)), 0o600); err != nil {
		s.tb.Fatal(err)
	}
	if err := s.Signal(syscall.SIGHUP); err != nil {
		s.tb.Fatal(err)
	}
	process.Eventually(s.tb, "the reload", func() bool { return s.number(applied) > before })
}

// A reload may change the terms of a hybrid limit, and make it exact or hybrid: used units stay used, and the units that a
// server has in hand are not lost.
func TestReloadChangesHybridTerms(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	const exact = "hybrid: false"
	terms := func(text string) string {
		return strings.Replace(hybridExample(t, r), "hybrid: {sync: 1s, stranded: 10%}", text, 1)
	}
	dir := t.TempDir()
	s := serveIn(t, dir, terms(exact))
	got := flood(t, "acme", "/api/orders", 40, s)
	for _, text := range []string{"hybrid: {sync: 100ms, stranded: 10%}", "hybrid: {sync: 200ms, stranded: 20%}", exact} {
		s.reloadWith(dir, terms(text))
		got += flood(t, "acme", "/api/orders", 60, s)
	}
	if got != 220 {
		t.Errorf("%d of 220 requests were admitted, of a limit of 300", got)
	}
	useAll(t, got, s)
	if figure := s.figure(`sluice_hybrid_keys{limit="per-tenant",rule="per-tenant"}`); !strings.HasPrefix(figure, "no ") {
		t.Errorf("a rule that is exact again has the figure %s", figure)
	}
}

// While Redis does not answer, a server spends the units that it has in hand until its grant ends. Then the rule decides by its
// on_store_error.
func TestHybridSpendsOnThroughAnOutage(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := serve(t, fmt.Sprintf("store: {redis: {addresses: ['%s']}}\nupstream: echo\non_store_error: deny\n", r.Addr())+`
rules:
  - name: hot
    key: "header:X-Tenant"
    limit: {algorithm: token_bucket, rate: 10000/h}
    hybrid: {sync: 200ms, life: 1s, stranded: 50%}
`)
	flood(t, "acme", "/", 400, s)
	inHand := func() float64 { return s.number(`sluice_hybrid_unspent_units{limit="hot",rule="hot"}`) }
	process.Eventually(t, "a large grant", func() bool { flood(t, "acme", "/", 40, s); return inHand() > 20 })
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		if ok, err := s.as("acme", "/"); err != nil || !ok {
			t.Fatalf("request %d without Redis: %t, %v", i+1, ok, err)
		}
	}
	process.Eventually(t, "the end of the grant", func() bool {
		_, err := s.as("acme", "/")
		return err != nil && strings.Contains(err.Error(), "answers 503")
	})
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, "recovery", func() bool { ok, err := s.as("acme", "/"); return ok && err == nil })
}

// Charges that a hybrid limit took are given back as of an exact limit: here all of them, because no answer has a status
// that counts.
func TestHybridGivesBack(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	config := strings.Replace(hybridExample(t, r), "stranded: 10%}", "stranded: 10%}\n    count_status: [401]", 1)
	a, b := serve(t, config), serve(t, config)
	if got := flood(t, "acme", "/api/orders", 400, a, b); got != 800 {
		t.Errorf("%d of 800 requests that do not count were admitted", got)
	}
	const local = `sluice_hybrid_decisions_total{by="local",limit="per-tenant",rule="per-tenant"}`
	if n := a.number(local) + b.number(local); n < 100 {
		t.Errorf("the servers decided %v of 800 requests by themselves", n)
	}
}
