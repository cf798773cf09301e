package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
)

// depending starts a proxy whose requests hold leases, so that they outlast their clients.
func depending(t *testing.T, target string, abandoned *Abandoned) *httptest.Server {
	t.Helper()
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	d, err := httplimit.NewKeyDecider(httplimit.KeyOptions{
		Store: store, Limits: []*sluice.Limit{sluice.MustLimit("many", sluice.Concurrency{Max: 100})}, Key: []policy.Part{policy.Constant("all")},
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(d, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := handler(t, target, TransportOptions{}, func(o *Options) { o.Abandoned = abandoned })
	s := httptest.NewServer(Bounded(m.Wrap(p), p.o.Stall))
	t.Cleanup(s.Close)
	return s
}

// TestBoundsAbandonedRequests leaves five requests of a service that never answers: two are waited for, and not for long.
func TestBoundsAbandonedRequests(t *testing.T) {
	for name, wait := range map[string]time.Duration{"a time": 300 * time.Millisecond, "the end of the server": time.Hour} {
		t.Run(name, func(t *testing.T) {
			var arrived, ended atomic.Int64
			s := service(t, func(_ http.ResponseWriter, r *http.Request) {
				arrived.Add(1)
				<-r.Context().Done()
				ended.Add(1)
			})
			abandoned := NewAbandoned(AbandonedOptions{Most: 2, Wait: wait})
			f := depending(t, s.URL, abandoned)
			t.Cleanup(abandoned.Close) // or the proxy and the service would wait for requests that stay
			var clients []*wire
			for range 5 {
				c := dial(t, f.URL)
				c.send("GET / HTTP/1.1", "Host: example.com", "")
				clients = append(clients, c)
			}
			edgetest.Eventually(t, "the arrival of all requests", func() bool { return arrived.Load() == 5 })
			if got := abandoned.Count(); got != 0 {
				t.Errorf("%d are abandoned while their clients wait", got)
			}
			for _, c := range clients {
				c.Close()
			}
			edgetest.Eventually(t, "the end of three requests", func() bool { return ended.Load() == 3 })
			if got := abandoned.Count(); got != 2 {
				t.Errorf("%d are waited for", got)
			}
			if wait > time.Minute {
				abandoned.Close()
			}
			edgetest.Eventually(t, "the end of all requests", func() bool { return ended.Load() == 5 && abandoned.Count() == 0 })
		})
	}
}

// TestEndsAbandonedAnswers receives a bounded part of an answer whose client has left, and one event of a stream.
func TestEndsAbandonedAnswers(t *testing.T) {
	for kind, drain := range map[string]int64{"application/octet-stream": 256 << 10, "text/event-stream; charset=utf-8": 1 << 40} {
		t.Run(kind, func(t *testing.T) {
			arrived, ended := make(chan struct{}), make(chan struct{})
			s := service(t, func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				w.Header().Set("Content-Type", kind)
				_ = http.NewResponseController(w).Flush()
				close(arrived)
				piece := make([]byte, 4<<10)
				for r.Context().Err() == nil {
					if _, err := w.Write(piece); err != nil {
						return
					}
				}
			})
			f := depending(t, s.URL, NewAbandoned(AbandonedOptions{Drain: drain}))
			c := dial(t, f.URL)
			c.send("GET / HTTP/1.1", "Host: example.com", "")
			await(t, arrived, "the request")
			c.Close()
			await(t, ended, "the end of the answer")
		})
	}
}

// TestForwardsNothingForClientsThatLeft leaves while all connections to the service are in use.
func TestForwardsNothingForClientsThatLeft(t *testing.T) {
	arrived, over := make(chan string, 8), make(chan struct{})
	s := service(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.Path
		<-over
	})
	ctx, p := newPassage(t.Context(), NewAbandoned(AbandonedOptions{}), false)
	tr := newTransport(t, TransportOptions{MaxConnections: 1})
	first := make(chan struct{})
	go func() {
		defer close(first)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/first", nil)
		if res, err := tr.RoundTrip(r); err == nil {
			res.Body.Close()
		}
	}()
	if got := <-arrived; got != "/first" {
		t.Fatalf("the service got %s first, want /first", got)
	}
	second := make(chan error)
	go func() {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/second", nil)
		res, err := tr.RoundTrip(r)
		if err == nil {
			res.Body.Close()
		}
		second <- err
	}()
	p.leave()
	if err := <-second; err == nil || p.wasSent() || !errors.Is(context.Cause(ctx), errAbandoned) {
		t.Errorf("sent: %t, %v; want the request to end with its client, unsent", p.wasSent(), err)
	}
	close(over)
	<-first
	if running := p.finish(); running || len(arrived) != 0 {
		t.Errorf("the service may work: %t", running)
	}
}
