package threats

import (
	"io"
	"log"
	"net"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policyfile"
)

// TestNothingGetsPastTheMiddleware sends the generated requests to handlers of net/http behind only the middleware, over
// HTTP/1 and HTTP/2. What TestNothingGetsPast promises holds there, except for headers such as X-Real-IP: the middleware
// passes them on, so handlers read what rules read.
func TestNothingGetsPastTheMiddleware(t *testing.T) {
	for name, h2 := range map[string]bool{"http1": false, "http2": true} {
		t.Run(name, func(t *testing.T) {
			w := middlewareWorld(t, h2)
			seed := seedOf(t)
			total := redistest.Times(t, attacks)
			served := 0
			seen := map[string]int{}
			w.begun = time.Now()
			for first := 0; first < total; first += batch {
				sent := w.run(t, w.services, seed, first, min(batch, total-first), (*protected).attack)
				all, err := w.settle()
				if err != nil {
					t.Fatal(err)
				}
				all = slices.DeleteFunc(all, func(r *record) bool {
					r.Forwarding = nil
					return slices.Contains(r.Ran, "gone")
				})
				served += len(all)
				w.judge(t, sent, all, seen)
				w.count(t, sent, all)
			}
			for promise, times := range seen {
				t.Errorf("%d requests got past %s", times, promise)
			}
			if t.Logf("%d attacks, %d requests reached a handler", total, served); served < total/8 {
				t.Errorf("only %d requests reached a handler", served)
			}
		})
	}
}

// middlewareWorld returns a world of one service in this process: handlers behind the middleware, with the rules of the
// other worlds.
func middlewareWorld(t *testing.T, h2 bool) *world {
	t.Helper()
	file, err := policyfile.Parse("rules.yaml", []byte(configuration("127.0.0.1:0", "127.0.0.1:1")))
	if err != nil {
		t.Fatal(err)
	}
	p, err := file.Policy()
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(d, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{records: newRecords()}
	mux := newMux(w.records)
	bare, limited := httptest.NewServer(mux), httptest.NewUnstartedServer(m.Wrap(mux))
	t.Cleanup(bare.Close)
	t.Cleanup(limited.Close)
	limited.Config.ErrorLog = log.New(io.Discard, "", 0) // malformed requests
	name := "go"
	if h2 {
		name += overH2
		limited.EnableHTTP2 = true
		limited.StartTLS()
	} else {
		limited.Start()
	}
	address := func(s *httptest.Server) string { return s.Listener.Addr().(*net.TCPAddr).String() }
	s := &protected{name: name, server: "go", addr: address(bare), front: address(limited), h2: h2}
	w.services = []*protected{s}
	if err := w.exhaust(); err != nil {
		t.Fatal(err)
	}
	return w
}
