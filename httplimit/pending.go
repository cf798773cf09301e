package httplimit

import (
	"context"
	"net/http"
)

// Pending is what a Middleware settles when a handler returns. A handler that passes requests on to another
// program uses it to report the answer of that program, which the response does not show if the client leaves
// first. Other handlers need no Pending: what they write is the outcome. A nil Pending does nothing. Its methods
// are for the goroutine of the handler.
type Pending struct {
	outer     *Pending // of a middleware around this one
	answered  int
	discarded int64
	complete  bool
	unknown   bool
	running   bool
}

// PendingOf returns what a middleware will settle for a request. It is nil if nothing depends on the outcome
// of the request: no cost, no count by status, and no lease.
func PendingOf(r *http.Request) *Pending {
	p, _ := r.Context().Value(pendingKey{}).(*Pending)
	return p
}

type pendingKey struct{}

// pendingContext is a context with its Pending.
type pendingContext struct {
	context.Context //nolint:containedctx // it is one
	Pending
}

func (c *pendingContext) Value(key any) any {
	if _, ok := key.(pendingKey); ok {
		return &c.Pending
	}
	return c.Context.Value(key)
}

// withPending returns a copy of a request that has a Pending. Errors of the gate are reported with the request.
func withPending(r *http.Request) (*http.Request, *Pending) {
	c := &pendingContext{Context: requestContext{r.Context(), r}, Pending: Pending{outer: PendingOf(r)}}
	return r.WithContext(c), &c.Pending
}

// Answered reports the status with which the other program began its answer, or the status of a request that was
// never passed on. It counts even if the client has left before.
func (p *Pending) Answered(status int) {
	for ; p != nil; p = p.outer {
		p.answered = status
	}
}

// Discarded reports bytes of the answer's body that were not written to the client.
func (p *Pending) Discarded(n int) {
	for ; p != nil; p = p.outer {
		p.discarded += int64(n)
	}
}

// Complete reports that the whole answer came, whatever the client received of it.
func (p *Pending) Complete() {
	for ; p != nil; p = p.outer {
		p.complete = true
	}
}

// Unknown reports that the other program got the request, or a part of it, and that its answer will not be known:
// the request counts, and its estimates stay charged. The status of the response does not matter then.
func (p *Pending) Unknown() {
	for ; p != nil; p = p.outer {
		p.unknown = true
	}
}

// Running reports that the other program may still work on the request when the handler returns. Leases are then
// not released: they end by their time to live.
func (p *Pending) Running() {
	for ; p != nil; p = p.outer {
		p.running = true
	}
}
