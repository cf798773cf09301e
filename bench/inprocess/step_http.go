package inprocess

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/peers"
)

// httpLimit never denies during a run.
var httpLimit = peers.Limit{Burst: 100_000_000, Every: time.Millisecond, Window: 24 * time.Hour}

// A middleware is a net/http middleware to measure.
type middleware struct {
	name string
	open func(peers.Limit) (func(http.Handler) http.Handler, error)
}

func middlewares() []middleware {
	all := sluiceMiddlewares()
	for _, p := range peers.All() {
		if p.Middleware != nil {
			all = append(all, middleware{p.Name, p.Middleware})
		}
	}
	return all
}

// httpClients is how many addresses the requests come from.
const httpClients = 1024

// measureHTTP times each middleware, on one goroutine with a writer that
// discards, beside a bare handler that sets the same headers.
func measureHTTP(b *bench) error {
	requests := make([]*http.Request, httpClients)
	for i := range requests {
		requests[i] = httptest.NewRequest(http.MethodGet, "/api/orders?page=2", nil)
		requests[i].RemoteAddr = fmt.Sprintf("198.51.%d.%d:%d", i/256, i%256, 40_000+i)
	}

	var contenders []contender
	w := &discard{header: http.Header{}}
	add := func(name string, h http.Handler) {
		serve := func(_, ops int) {
			for i := range ops {
				clear(w.header)
				h.ServeHTTP(w, requests[i%httpClients])
			}
		}
		serve(0, httpClients)
		before := mallocs()
		serve(0, 100*httpClients)
		b.results.Set("http-allocs", name, figures.Once(float64(mallocs()-before)/(100*httpClients)))
		contenders = append(contenders, contender{name: name, ops: opsFor(b.turn, 1, serve), take: serve})
	}
	for _, m := range middlewares() {
		if !b.Wants("http", m.name) {
			continue
		}
		wrap, err := m.open(httpLimit)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		served := 0
		h := wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
		clear(w.header)
		h.ServeHTTP(w, requests[0])
		if served != 1 {
			return fmt.Errorf("%s denied the first request", m.name)
		}
		add(m.name+bareSuffix, bare(w.header))
		add(m.name, h)
	}
	for name, stat := range b.race(1, contenders) {
		b.results.Set("http", name, stat)
	}
	for _, m := range middlewares() {
		if all, ok := b.results["http"][m.name]; ok {
			b.results.Set("http-over", m.name, figures.Once(all.Median-b.results["http"][m.name+bareSuffix].Median))
		}
	}
	return nil
}

// bareSuffix marks the figure of the bare handler beside a middleware.
const bareSuffix = " (bare)"

// bare returns a handler that only sets these headers.
func bare(headers http.Header) http.Handler {
	type field struct{ name, value string }
	var fields []field
	for name, values := range maps.All(headers) {
		for _, value := range values {
			fields = append(fields, field{name, value})
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, f := range fields {
			w.Header().Set(f.name, f.value)
		}
	})
}

// discard is a response writer that keeps only the headers.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}
