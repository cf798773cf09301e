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
	unsent    bool
	model     *modelAnswer
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

// Unsent reports that the other program got nothing of the request.
func (p *Pending) Unsent() {
	for ; p != nil; p = p.outer {
		p.unsent = true
	}
}

// Discarded reports a piece of the answer's body that was not written to the client.
func (p *Pending) Discarded(piece []byte) {
	for ; p != nil; p = p.outer {
		p.discarded += int64(len(piece))
		p.model.scan(piece)
	}
}

// Reads reports whether a rule reads the whole answer, as it does for the usage of a language model. Then an event stream
// has an end to wait for.
func (p *Pending) Reads() bool {
	for ; p != nil; p = p.outer {
		if p.model != nil {
			return true
		}
	}
	return false
}

// Cancels reports whether the request to the other program must end when the client leaves, by the rules that read its
// answer.
func (p *Pending) Cancels() bool {
	cancels := p.Reads()
	for ; p != nil; p = p.outer {
		cancels = cancels && (p.model == nil || p.model.cancels)
	}
	return cancels
}

// Canceled reports that the request to the other program was ended for this reason.
func (p *Pending) Canceled() {
	for ; p != nil; p = p.outer {
		if p.model != nil {
			p.model.canceled = true
		}
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
