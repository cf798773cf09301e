package vectors

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// A world is a store in which one vector happens.
type world struct {
	*testing.T
	store sluice.Store
	now   *atomic.Int64     // the store's clock, in microseconds; nil if it runs by itself
	redis *redistest.Server // nil in memory
	name  string            // begins the keys in Redis
}

// pass moves the clock on.
func (w *world) pass(d time.Duration) { w.now.Add(int64(d / time.Microsecond)) }

// worlds makes a world of each kind, on a clock of the test or a real one.
type worlds struct {
	server *redistest.Server
	client rueidis.Client
}

func newWorlds(t *testing.T) *worlds {
	t.Helper()
	server := redistest.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &worlds{server, client}
}

// run runs a vector in memory and in Redis.
func (ws *worlds) run(t *testing.T, id string, wall bool, vector func(w *world)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		w := &world{T: t, name: id}
		var o memory.Options
		o.Clock = w.clock(wall)
		store, err := memory.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		w.store = store
		vector(w)
	})
	t.Run("redis", func(t *testing.T) {
		w := &world{T: t, name: id, redis: ws.server}
		client, err := rueidisstore.NewClient(ws.client)
		if err != nil {
			t.Fatal(err)
		}
		if clock := w.clock(wall); clock != nil {
			client = redistest.WithClock(client, clock)
		}
		if w.store, err = redisstore.New(client, redisstore.Options{Prefix: id}); err != nil {
			t.Fatal(err)
		}
		vector(w)
		keys, err := ws.server.KeysWithoutTTL(t.Context())
		if err != nil || len(keys) > 0 {
			t.Errorf("keys without a time to live: %v, %v", keys, err)
		}
	})
}

// clock returns the clock of a store; nil for its own.
func (w *world) clock(wall bool) func() int64 {
	if wall {
		return nil
	}
	w.now = &atomic.Int64{}
	w.now.Store(1_700_000_000_000_000)
	return w.now.Load
}

// limiter makes a limiter over the world's store.
func (w *world) limiter(name string, a sluice.Algorithm) *sluice.Limiter {
	w.Helper()
	limit, err := sluice.NewLimit(name, a)
	if err != nil {
		w.Fatal(err)
	}
	return sluice.NewLimiter(w.store, limit)
}

// allow asks for one unit.
func (w *world) allow(l *sluice.Limiter, key string) sluice.Decision {
	w.Helper()
	d, err := l.Allow(w.Context(), sluice.StringKey(key))
	if err != nil {
		w.Fatal(err)
	}
	return d
}

// A site is a service behind a policy, reached over connections.
type site struct {
	*world
	*httptest.Server
}

// serve starts a site; its handler sees the verdict in its context.
func (w *world) serve(h http.HandlerFunc, rules ...policy.Rule) *site {
	w.Helper()
	p, err := policy.New(policy.Options{Rules: rules})
	if err != nil {
		w.Fatal(err)
	}
	proxies, err := httplimit.ParseProxies("127.0.0.0/8", "::1")
	if err != nil {
		w.Fatal(err)
	}
	client, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: proxies})
	if err != nil {
		w.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: w.store, ClientIP: client})
	if err != nil {
		w.Fatal(err)
	}
	m, err := httplimit.New(d, httplimit.Options{Context: true, OnError: func(_ *http.Request, err error) { w.Error(err) }})
	if err != nil {
		w.Fatal(err)
	}
	s := httptest.NewServer(m.Wrap(h))
	w.Cleanup(s.Close)
	return &site{w, s}
}

// ask sends a request and returns the status and body; headers are given as "Name: value".
func (s *site) ask(method, path string, headers ...string) (int, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.URL+path, http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	res, err := s.Client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// passed sends n requests and returns how many are allowed; others must get a 429.
func (s *site) passed(n int, method, path string, headers ...string) (allowed int) {
	s.Helper()
	for range n {
		switch status, body := s.ask(method, path, headers...); status {
		case http.StatusOK:
			allowed++
		case http.StatusTooManyRequests:
		default:
			s.Fatalf("%s %s: %d %s", method, path, status, body)
		}
	}
	return allowed
}

// verdict is a handler that tells, in nginx's words, what its request met.
func verdict(rw http.ResponseWriter, r *http.Request) {
	v, ok := httplimit.FromContext(r.Context())
	if !ok || len(v.Results) == 0 {
		fmt.Fprint(rw, "-")
		return
	}
	d, state := v.Results[0].Decision, "PASSED"
	switch {
	case !d.Allowed:
		state = "REJECTED"
	case d.Delay > 0:
		state = "DELAYED"
	}
	if v.Results[0].Rule.Shadow {
		state += "_DRY_RUN"
	}
	fmt.Fprint(rw, state)
}
