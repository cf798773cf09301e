package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/soak"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
	"github.com/sluicehq/sluice/server/internal/edge/pipeline"
)

// distant is a store that is called for every request.
type distant struct {
	sluice.Store
	mu     sync.Mutex
	calls  int
	during func(calls int) // called in each call
}

func (d *distant) count() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls++; d.during != nil {
		d.during(d.calls)
	}
}

func (d *distant) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	d.count()
	return d.Store.Decide(ctx, r)
}

func (d *distant) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	d.count()
	return d.Store.DecideAll(ctx, rs, out)
}

func (d *distant) DecideLocally(sluice.Request) (decision sluice.Decision, ok bool) {
	return decision, false
}

func (d *distant) DecideAllLocally([]sluice.Request, []sluice.Decision) bool { return false }

// serveDistant starts an API over a store that must be called.
func serveDistant(t *testing.T, rules string) (s *service, store *distant) {
	store = &distant{}
	s = serve(t, rules, func(o *Options) {
		store.Store = frozen(t)
		o.Decider, o.Pipelines = deciding(t, o.Decider.Policy(), store), pipeline.New(store, 1024, false)
		t.Cleanup(o.Pipelines.Close)
	})
	return s, store
}

// The requests of a batch share calls of the store.
func TestBatchesShareCalls(t *testing.T) {
	for n, most := range map[int]int{1: 1, 100: 2, mostQuestions: 32} { // answers are sent in parts
		s, store := serveDistant(t, perClient)
		requests := make([]string, n)
		for i := range requests {
			requests[i] = fmt.Sprintf(`{"client_ip": "192.0.%d.%d"}`, i/256, i%256)
		}
		text := s.whole("/v1/check", `{"requests": [`+strings.Join(requests, ",")+`]}`)
		if allowed := strings.Count(text, `{"decision":{"allowed":true`); allowed != n {
			t.Errorf("%d of %d requests are allowed: %.300s", allowed, n, text)
		}
		if store.calls > most {
			t.Errorf("%d requests: %d calls of the store, want %d at most", n, store.calls, most)
		}
	}
}

// TestBatchesAnswerInOrder decides random batches over a store that must be called. The answers equal the answers of a
// server that decides in place.
func TestBatchesAnswerInOrder(t *testing.T) {
	const rules = `rules:
  - {name: client, match: {path: /c/**}, key: client_ip, limit: {algorithm: token_bucket, rate: 3/d}, ban: {after: 2, for: 1h}}
  - {name: all, match: {path: "/c/all"}, key: global, limit: {algorithm: fixed_window, rate: 20/d}}
  - {name: jobs, match: {path: /jobs}, key: global, limit: {algorithm: concurrency, max: 1, ttl: 1h}}
  - {name: queue, match: {path: /q}, key: client_ip, limit: {algorithm: leaky_bucket, rate: 1/h, queue: 3}}
  - {name: tried, match: {path: /t}, key: client_ip, limit: {algorithm: token_bucket, rate: 3/d}, shadow: true}
`
	const marking = `  - {name: noisy, key: client_ip, limit: {algorithm: token_bucket, rate: 2/d}, when_limited: {action: mark}}
  - {name: later, match: {marked: true}, key: client_ip, limit: {algorithm: token_bucket, rate: 1/d}}
`
	for seed := range uint64(soak.Times(t, 2)) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		configuration := rules
		if seed%3 == 0 {
			configuration += marking
		}
		far, _ := serveDistant(t, configuration)
		near := serve(t, configuration, func(o *Options) { o.Decider = deciding(t, o.Decider.Policy(), frozen(t)) })
		var requests []string
		for range 200 {
			ip := fmt.Sprintf("192.0.2.%d", rnd.IntN(6))
			requests = append(requests, fmt.Sprintf([]string{
				`{"path": "/c/x", "client_ip": "%s"}`, `{"path": "/c/all", "client_ip": "%s"}`, `{"path": "/jobs", "client_ip": "%s"}`,
				`{"path": "/q", "client_ip": "%s", "max_wait_ms": 7200000}`, `{"path": "/t", "client_ip": "%s"}`, `{"rule": "client", "key": ["%s"], "cost": 2}`,
				`{"path": "/other", "client_ip": "%s"}`, `{"rule": "none", "key": ["%s"]}`, `{"client_ip": "x%s"}`,
			}[rnd.IntN(9)], ip))
		}
		body := `{"requests": [` + strings.Join(requests, ",") + `]}`
		for _, path := range []string{"/v1/peek", "/v1/check", "/v1/peek"} {
			got, want := far.whole(path, body), near.whole(path, body)
			if got != want {
				at := 0
				for at < min(len(got), len(want)) && got[at] == want[at] {
					at++
				}
				t.Fatalf("seed %d, %s, from byte %d:\n%.400s\nwant\n%.400s", seed, path, at, got[max(0, at-200):], want[max(0, at-200):])
			}
		}
	}
}

// frozen returns a store whose clock does not move.
func frozen(t *testing.T) sluice.Store {
	t.Helper()
	store, err := memory.New(memory.Options{MaxBytes: 16 << 20, Clock: func() int64 { return 1_700_000_000_000_000 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// whole returns the whole answer to a call.
func (s *service) whole(path, body string) string {
	s.t.Helper()
	w := gateway.NewAnswer()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	s.api.ServeHTTP(w, r)
	return string(w.Body)
}

// When the caller leaves, no further request is decided. The requests that have begun are charged and counted.
func TestABatchInAPipelineEndsWithItsCaller(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	s, store := serveDistant(t, perClient)
	store.during = func(calls int) {
		if calls == 3 {
			leave()
		}
	}
	requests := make([]string, mostQuestions)
	for i := range requests {
		requests[i] = fmt.Sprintf(`{"client_ip": "192.0.%d.%d"}`, i/256, i%256)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/v1/check", strings.NewReader(`{"requests": [`+strings.Join(requests, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	s.api.ServeHTTP(gateway.NewAnswer(), r)
	// The question that finds the pipeline full has begun too.
	if store.calls < 3 || store.calls > 4 {
		t.Errorf("%d calls of the store, want 3 or 4", store.calls)
	}
}
