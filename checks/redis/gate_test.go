package redis

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
)

// gates runs a test with what gates carry out, over HTTP: with a store in memory, and with one that two
// services share through a real Redis.
func gates(t *testing.T, test func(t *testing.T, services func(rule policy.Rule, h http.HandlerFunc) [2]*httptest.Server)) {
	serve := func(t *testing.T, store sluice.Store, rule policy.Rule, h http.HandlerFunc) *httptest.Server {
		rule.Name, rule.Key, rule.OnStoreError = "rule", []policy.Part{policy.Global()}, sluice.FallbackDeny
		p, err := policy.New(policy.Options{Rules: []policy.Rule{rule}})
		if err != nil {
			t.Fatal(err)
		}
		d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		m, err := httplimit.New(d, httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(m.Wrap(h))
		t.Cleanup(s.Close)
		return s
	}
	t.Run("memory", func(t *testing.T) {
		store, err := memory.New(memory.Options{})
		if err != nil {
			t.Fatal(err)
		}
		test(t, func(rule policy.Rule, h http.HandlerFunc) (all [2]*httptest.Server) {
			all[0] = serve(t, store, rule, h)
			all[1] = all[0] // whose gate has all requests that wait
			return all
		})
	})
	t.Run("Redis", func(t *testing.T) {
		server := redistest.Start(t)
		test(t, func(rule policy.Rule, h http.HandlerFunc) (all [2]*httptest.Server) {
			for i := range all {
				store := adapters.Rueidis.Open(t, adapters.ToSocket(server), redisstore.Options{})
				all[i] = serve(t, store, rule, h)
			}
			return all
		})
	})
}

// fetch returns the status of an answer, and its body.
func fetch(ctx context.Context, s *httptest.Server, path string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	res, err := s.Client().Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// TestGateDelay: requests to two services wait for their turns in one queue.
func TestGateDelay(t *testing.T) {
	t.Parallel()
	gates(t, func(t *testing.T, services func(policy.Rule, http.HandlerFunc) [2]*httptest.Server) {
		var mu sync.Mutex
		var at []time.Time
		s := services(policy.Rule{
			Limits: []*sluice.Limit{sluice.MustLimit("", sluice.LeakyBucket{Rate: sluice.PerSecond(10), Queue: 9})}, MaxWaiting: 8,
		}, func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Now())
		})
		began := time.Now()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if code, body, err := fetch(t.Context(), s[i%2], "/"); code != http.StatusOK || err != nil {
					t.Errorf("each request should get its turn: %d %s %v", code, body, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took < 650*time.Millisecond || len(at) != 8 {
			t.Errorf("%d were handled within %v", len(at), took)
		}
		// The turns are a tenth of a second apart; a busy machine is late for some.
		for i := 1; i < len(at); i++ {
			if turn := time.Duration(i) * 100 * time.Millisecond; at[i].Sub(began) < turn-50*time.Millisecond {
				t.Errorf("request %d was handled after %v", i, at[i].Sub(began))
			}
		}
	})
}

// TestGateConcurrency: what two services have in flight is bounded together, and a queued
// request runs when a lease ends, whichever service held it.
func TestGateConcurrency(t *testing.T) {
	t.Parallel()
	gates(t, func(t *testing.T, services func(policy.Rule, http.HandlerFunc) [2]*httptest.Server) {
		const requests, units = 24, 3
		var running, most, handled atomic.Int64
		end := make(chan struct{}) // one request that runs
		s := services(policy.Rule{
			Limits:  []*sluice.Limit{sluice.MustLimit("", sluice.Concurrency{Max: units, Queue: 30, Latency: 20 * time.Millisecond})},
			MaxWait: 30 * time.Second,
		}, func(http.ResponseWriter, *http.Request) {
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-end
			handled.Add(1)
			running.Add(-1)
		})
		var all sync.WaitGroup
		for i := range requests {
			all.Go(func() {
				if code, body, err := fetch(t.Context(), s[i%2], "/"); code != http.StatusOK || err != nil {
					t.Errorf("each request should run: %d %s %v", code, body, err)
				}
			})
		}
		for left := int64(requests); left > 0; left-- {
			process.Eventually(t, "a request for each unit", func() bool { return running.Load() >= min(units, left) })
			end <- struct{}{}
			process.Eventually(t, "the end of a request", func() bool { return handled.Load() == requests-left+1 })
		}
		all.Wait()
		if most.Load() > units || handled.Load() != requests {
			t.Errorf("%d ran at once; %d were handled", most.Load(), handled.Load())
		}
	})
}

// TestGateSettles: what is known only after a response is settled then.
func TestGateSettles(t *testing.T) {
	t.Parallel()
	gates(t, func(t *testing.T, services func(policy.Rule, http.HandlerFunc) [2]*httptest.Server) {
		s := services(policy.Rule{
			Limits:      []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerHour(1000)})},
			Cost:        policy.Cost{Source: policy.CostResponseHeader, Header: "X-Tokens", Estimate: 300, Max: 700},
			CountStatus: []policy.StatusRange{{From: 200, To: 299}},
		}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Tokens", "100")
			if r.URL.Path == "/bad" {
				w.WriteHeader(http.StatusBadGateway)
			}
			fmt.Fprint(w, w.Header().Get("RateLimit"))
		})
		for i, c := range []struct {
			at   int
			path string
			code int
			want string
		}{
			{0, "/", 200, `"rule";r=700;`},
			{1, "/", 200, `"rule";r=600;`},
			{0, "/bad", 502, `"rule";r=500;`},
			{1, "/", 200, `"rule";r=500;`},
			{0, "/", 200, `"rule";r=400;`},
		} {
			code, body, err := fetch(t.Context(), s[c.at], c.path)
			if err != nil || code != c.code || len(body) < len(c.want) || body[:len(c.want)] != c.want {
				t.Errorf("request %d: %d %s %v; want %s", i, code, body, err, c.want)
			}
		}
	})
}
