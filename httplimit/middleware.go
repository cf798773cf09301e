package httplimit

import (
	"errors"
	"net/http"

	"github.com/sluicehq/sluice/policy"
)

// Middleware asks a Decider about each request and carries the verdict out: it
// sets headers, lets the request wait, refuses it, or has it handled. It is safe for
// concurrent use.
//
// A request that is allowed after a delay waits for it, as long as its context
// lasts: when the client is gone, the request is not handled and what it took is
// given back. What it holds of concurrency limits is released when the handler returns or panics.
type Middleware struct {
	decider Decider
	o       Options
	headers *Headers
	waiter  *Waiter
}

// New returns a middleware that carries out what d decides.
func New(d Decider, o Options) (*Middleware, error) {
	if d == nil {
		return nil, errors.New("httplimit: New has no Decider; make one with NewKeyDecider or NewPolicyDecider")
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	headers, err := NewHeaders(o.Headers)
	if err != nil {
		return nil, err
	}
	return &Middleware{decider: d, o: o, headers: headers, waiter: NewWaiter(o.MaxDelay, o.MaxWaiting)}, nil
}

// Waiting returns how many requests wait now, in all handlers that m wraps.
func (m *Middleware) Waiting() int { return m.waiter.Waiting() }

// Wrap returns a handler that limits the requests to next.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
}

func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	v := m.decider.Decide(r)
	if v.Action == policy.Allow && v.Delay <= 0 && v.Err == nil && m.o.Counts == nil && !m.o.Context && !holdsLeases(&v) {
		// Most requests, and none of the cost of the others.
		m.headers.Set(w.Header(), &v)
		next.ServeHTTP(w, r)
		return
	}
	m.serveOther(w, r, next, v)
}

// holdsLeases reports whether there is something to release.
func holdsLeases(v *policy.Verdict) bool {
	for i := range v.Met {
		if v.Met[i].Request.Member != 0 {
			return true
		}
	}
	return false
}
