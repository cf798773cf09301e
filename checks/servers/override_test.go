package servers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// tenantsAt is a policy of two limits for each tenant, over a Redis.
func tenantsAt(address string) string {
	return fmt.Sprintf("store: {redis: {addresses: ['%s']}}\n", address) + `
rules:
  - name: tenants
    match: {path: /tenants}
    key: "header:X-Tenant"
    limits: [{algorithm: token_bucket, rate: 7/d}, {name: two, algorithm: token_bucket, rate: 14/d}]
`
}

// override sets the numbers of a tenant to n and twice n, or removes its override if n is zero.
func (s *server) override(tenant string, n int) (status int, text string, err error) {
	if n == 0 {
		return s.try("admin", http.MethodDelete, "/v1/overrides", fmt.Sprintf(`{"rule": "tenants", "key": [%q]}`, tenant))
	}
	return s.try("admin", http.MethodPut, "/v1/overrides",
		fmt.Sprintf(`{"rule": "tenants", "key": [%q], "limits": [{"rate": "%d/d"}, {"rate": "%d/d"}], "note": "a test"}`, tenant, n, 2*n))
}

// numbersOf returns the first number of a tenant, by a decision. Both limits must have numbers of one time.
func (s *server) numbersOf(tenant, call string) (int, error) {
	status, text, err := s.try("api", http.MethodPost, call, fmt.Sprintf(`{"rule": "tenants", "key": [%q]}`, tenant))
	if err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("%s is answered %d %s, %w", call, status, text, err)
	}
	var answer struct{ Limits []struct{ Capacity int } }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Limits) != 2 {
		return 0, fmt.Errorf("%s is answered %s, %w", call, text, err)
	}
	if answer.Limits[1].Capacity != 2*answer.Limits[0].Capacity {
		return 0, fmt.Errorf("a decision has a mix of numbers: %s", text)
	}
	return answer.Limits[0].Capacity, nil
}

// Changes of overrides through any of eight servers of one Redis are in force on all of them within a second, under load. No
// request fails, and no decision has a mix of old and new numbers. While Redis is stopped, changes are refused, and
// when it is back, the servers follow again. What a killed server has answered stays, also what it answered last.
func TestOverridesOnEightServers(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	servers := make([]*server, 8)
	for i := range servers {
		servers[i] = serve(t, tenantsAt(r.Addr()))
	}
	done, calls := make(chan struct{}), atomic.Int64{}
	var load sync.WaitGroup
	for i, s := range servers {
		load.Go(func() {
			for n := i; ; n++ {
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
				}
				if _, err := s.numbersOf(fmt.Sprint("t", n%8), "/v1/check"); err != nil {
					t.Errorf("server %d: %v", i, err)
					return
				}
				calls.Add(1)
			}
		})
	}
	// follow changes a tenant's numbers and returns when all servers have them.
	follow := func(via int, tenant string, n int) time.Duration {
		status, text, err := servers[via].override(tenant, n)
		if err != nil || status != http.StatusOK {
			t.Fatalf("a change through server %d is answered %d %s, %v", via, status, text, err)
		}
		if n == 0 {
			n = 7
		}
		began := time.Now()
		for i, s := range servers {
			if s == nil {
				continue
			}
			for {
				got, err := s.numbersOf(tenant, "/v1/peek")
				if err != nil {
					t.Fatalf("server %d: %v", i, err)
				}
				if got == n {
					break
				}
				<-time.After(5 * time.Millisecond)
				if time.Since(began) > 10*time.Second {
					t.Fatalf("10 s after a change through server %d, server %d still has %d, want %d", via, i, got, n)
				}
			}
		}
		return time.Since(began)
	}
	var mu sync.Mutex
	var took []time.Duration
	var changes sync.WaitGroup
	each := redistest.Times(t, 5) // a soak of 25 makes a thousand changes
	for worker := range 8 {
		changes.Go(func() {
			for n := range each {
				d := follow((worker+n)%8, fmt.Sprint("t", worker), (n+1)%5*10)
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
			}
		})
	}
	changes.Wait()
	close(done)
	load.Wait()
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("%d changes were in force on eight servers after %v (median), %v (p99), %v (most), beside %d calls", len(took), took[len(took)/2], p99, took[len(took)-1], calls.Load())
	most := 3 * time.Second
	soak := redistest.Times(t, 1) > 1 // then nothing else runs
	if soak {
		most = time.Second
	}
	if p99 > most {
		t.Errorf("a change takes %v (p99) until all servers have it, want %v at most", p99, most)
	}

	// The last change before the stop is answered, and other servers may not have it yet.
	if status, text, err := servers[0].override("t4", 65); err != nil || status != http.StatusOK {
		t.Fatalf("the last change before Redis stops is answered %d %s, %v", status, text, err)
	}
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	if status, text, err := servers[0].override("t1", 90); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("while Redis is stopped, a change is answered %d %s, %v", status, text, err)
	}
	for i, s := range servers {
		process.Eventually(t, fmt.Sprintf("the status of server %d", i), func() bool {
			_, text := s.ready()
			return s.figure("sluice_overrides_stale") == "1" && text != "ok\nstore: ok\n"
		})
	}
	stop, within := time.Second, 6*time.Second
	if soak {
		stop, within = 10*time.Second, 2*time.Second
	}
	<-time.After(stop - time.Since(stopped))
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for i, s := range servers {
		process.Eventually(t, fmt.Sprintf("the last change before the stop, and an end of the alarm, on server %d", i), func() bool {
			n, err := s.numbersOf("t4", "/v1/peek")
			return err == nil && n == 65 && s.figure("sluice_overrides_stale") == "0"
		})
	}
	if back := time.Since(began); back > within {
		t.Errorf("after Redis was stopped for %v, the servers follow again after %v, want %v at most", stop, back, within)
	} else {
		t.Logf("after Redis was stopped for %v, all servers follow again after %v", stop, back)
	}
	follow(1, "t2", 80)

	// A server is killed while it takes one change after another.
	answered := 0
	for ; ; answered++ {
		if answered == 20 {
			go func() { _ = servers[2].Signal(syscall.SIGKILL) }() // it runs until then
		}
		if status, _, err := servers[2].override(fmt.Sprint("k", answered), answered+1); err != nil || status != http.StatusOK {
			break
		}
	}
	servers[2] = serve(t, tenantsAt(r.Addr()))
	t.Logf("%d changes were answered before the server was killed", answered)
	for i, s := range servers {
		process.Eventually(t, fmt.Sprintf("the %d answered changes on server %d", answered, i), func() bool {
			for k := range answered {
				if n, err := s.numbersOf(fmt.Sprint("k", k), "/v1/peek"); err != nil || n != k+1 {
					return false
				}
			}
			return true
		})
	}
}
