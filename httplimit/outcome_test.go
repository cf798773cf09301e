package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// A handler that stops because its client has left leaves the outcome unknown: the request counts, and its
// estimate stays charged.
func TestOutcomesOfClientsThatLeave(t *testing.T) {
	write := func(status int, header ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for _, h := range header {
				w.Header().Set("Content-Length", h)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, "12345")
		}
	}
	abort := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	none := func(http.ResponseWriter) {}
	for _, c := range []struct {
		name          string
		before, after func(http.ResponseWriter) // the client leaves
		report        func(*httplimit.Pending)
		counts, bytes int64
	}{
		{"without an answer", none, none, nil, 1, 1000},
		{"aborted", none, abort, nil, 1, 1000},
		{"an error because the client left", none, write(500), nil, 1, 1000},
		{"an answer before", write(200), none, nil, 0, 1000},
		{"a whole answer before", write(200, "5"), none, nil, 0, 5},
		{"a part of an answer before", write(200, "6"), none, nil, 0, 1000},
		{"a failure before", write(401), none, nil, 1, 1000},
		{"an answer that breaks off", write(200), abort, nil, 0, 1000},
		{"reported", none, none, func(p *httplimit.Pending) { p.Answered(200) }, 0, 1000},
		{"reported as whole", none, none, func(p *httplimit.Pending) { p.Answered(200); p.Discarded(make([]byte, 7)); p.Complete() }, 0, 7},
		{"reported as larger", none, none, func(p *httplimit.Pending) { p.Answered(401); p.Discarded(make([]byte, 7000)) }, 1, 7000},
		{"reported as unknown", write(200, "5"), none, (*httplimit.Pending).Unknown, 1, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := int64(1e6)
			d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{},
				policy.Rule{Name: "failed", Limits: hourly(100), CountStatus: []policy.StatusRange{policy.Status(401)}},
				policy.Rule{Name: "bytes", Limits: hourly(100_000), Cost: policy.Cost{Source: policy.CostResponseBytes, Estimate: 1000}},
			)
			ctx, leave := context.WithCancel(t.Context())
			h := wrap(t, d, httplimit.Options{OnError: func(_ *http.Request, err error) { t.Error(err) }}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.before(w)
				leave()
				if c.report != nil {
					c.report(httplimit.PendingOf(r))
				}
				c.after(w)
			}))
			func() {
				defer func() { _ = recover() }()
				h.ServeHTTP(httptest.NewRecorder(), get("/").WithContext(ctx))
			}()
			v := d.Policy().Peek(t.Context(), d.Store(), &policy.Attributes{})
			if got := [2]int64{100 - v.Results[0].Decision.Remaining, 100_000 - v.Results[1].Decision.Remaining}; got != [2]int64{c.counts, c.bytes} {
				t.Errorf("charged %v; want %v", got, [2]int64{c.counts, c.bytes})
			}
		})
	}
}

// A handler that returns has ended its work, unless it reports that another program works on. Middlewares that are
// around each other all learn it.
func TestLeasesOutlastHandlersThatReport(t *testing.T) {
	for _, running := range []bool{false, true} {
		clock := int64(1e6)
		var deciders [2]*httplimit.Decider
		var h http.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if running {
				httplimit.PendingOf(r).Running()
			}
		})
		for i := range deciders {
			deciders[i] = ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Rule{Name: "one", Limits: []*sluice.Limit{sluice.MustLimit("one", sluice.Concurrency{Max: 1})}})
			h = wrap(t, deciders[i], httplimit.Options{}, h)
		}
		h.ServeHTTP(httptest.NewRecorder(), get("/"))
		for _, d := range deciders {
			v := d.Policy().Peek(t.Context(), d.Store(), &policy.Attributes{})
			if free := v.Results[0].Decision.Remaining == 1; free == running {
				t.Errorf("running: %t; free: %t", running, free)
			}
		}
		clock += 61e6
		if v := deciders[0].Policy().Peek(t.Context(), deciders[0].Store(), &policy.Attributes{}); v.Results[0].Decision.Remaining != 1 {
			t.Error("the lease outlasts its TTL")
		}
	}
}

// Requests without a charge that depends on the outcome have nothing to report to.
func TestNothingIsPending(t *testing.T) {
	clock := int64(1e6)
	h := limited(t, storeAt(t, &clock), sluice.FixedWindow{Rate: sluice.PerHour(5)}, httplimit.Options{}, func(_ http.ResponseWriter, r *http.Request) {
		p := httplimit.PendingOf(r)
		if p != nil {
			t.Error("something is pending")
		}
		p.Answered(200)
		p.Discarded(make([]byte, 1))
		p.Complete()
		p.Unknown()
		p.Running()
	})
	h.ServeHTTP(httptest.NewRecorder(), get("/"))
}
