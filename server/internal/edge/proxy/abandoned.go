package proxy

import (
	"context"
	"errors"
	"sync"
	"time"
)

// AbandonedOptions bound the requests whose clients have left.
type AbandonedOptions struct {
	// Most is how many there may be at once. Default: 256.
	Most int
	// Wait is how long the upstream may take to end its answer after the client has left. Default: 1 minute.
	Wait time.Duration
	// Drain is how many bytes of the rest of an answer are received. Default: 1 MiB.
	Drain int64
}

// Abandoned are the requests whose clients have left, and whose answers are awaited because a cost, a count or a
// lease depends on them: a service goes on although its client has left. Proxies share them. It is safe for
// concurrent use.
type Abandoned struct {
	o   AbandonedOptions
	ctx context.Context //nolint:containedctx // ends all waits
	end context.CancelFunc

	mu  sync.Mutex
	now int
}

// NewAbandoned returns Abandoned without requests.
func NewAbandoned(o AbandonedOptions) *Abandoned {
	orElse(&o.Most, 256)
	orElse(&o.Wait, time.Minute)
	orElse(&o.Drain, 1<<20)
	a := &Abandoned{o: o}
	a.ctx, a.end = context.WithCancel(context.Background())
	return a
}

// Count returns how many requests are waited for.
func (a *Abandoned) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// Close ends all waits, and lets none begin.
func (a *Abandoned) Close() { a.end() }

// enter counts one more request, unless there are as many as there may be.
func (a *Abandoned) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now >= a.o.Most || a.ctx.Err() != nil {
		return false
	}
	a.now++
	return true
}

func (a *Abandoned) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now--
}

// errAbandoned ends a request to the upstream whose client has left.
var errAbandoned = errors.New("proxy: the client has left")

// passage is a request on its way to the upstream on whose outcome a rule depends. It outlasts the client. A nil
// passage ends with the client.
type passage struct {
	all     *Abandoned
	cancels bool // it ends with the client all the same
	cancel  context.CancelCauseFunc
	stop    func() bool // no longer watches the client

	mu       sync.Mutex
	sent     bool // a connection got the request, so that the upstream may know it
	left     bool // the client has left
	entered  bool // it counts as abandoned
	gaveUp   bool // nobody waits for the end of the answer
	finished bool
	timer    *time.Timer
	unwatch  func() bool
}

type passageKey struct{}

// passageOf returns the passage of a request with this context.
func passageOf(ctx context.Context) *passage {
	p, _ := ctx.Value(passageKey{}).(*passage)
	return p
}

// newPassage returns the passage of a client with a context, and the context of the passage. The caller must call finish.
func newPassage(client context.Context, all *Abandoned, cancels bool) (context.Context, *passage) {
	p := &passage{all: all, cancels: cancels}
	ctx, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(client), passageKey{}, p))
	p.cancel = cancel
	p.stop = context.AfterFunc(client, p.leave)
	return ctx, p
}

// forward reports that a connection gets the request.
func (p *passage) forward() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = true
}

// withdraw reports that the connection got nothing of the request.
func (p *passage) withdraw() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.left {
		p.sent = false
	}
}

// wasSent reports whether the upstream may know the request.
func (p *passage) wasSent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// leave reports that the client has left, or can receive no more. From then on the passage lasts a bounded time.
func (p *passage) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left || p.finished {
		return
	}
	p.left = true
	switch {
	case !p.sent || p.cancels:
		p.cancel(errAbandoned)
	case !p.all.enter():
		p.gaveUp = true
		p.cancel(errAbandoned)
	default:
		p.entered = true
		p.timer = time.AfterFunc(p.all.o.Wait, p.giveUp)
		p.unwatch = context.AfterFunc(p.all.ctx, p.giveUp)
	}
}

// giveUp ends the request to the upstream, which may still work.
func (p *passage) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gaveUp = true
	p.cancel(errAbandoned)
}

// hasLeft reports whether the client has left.
func (p *passage) hasLeft() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}

// finish ends the passage, and reports whether the upstream may still work on the request.
func (p *passage) finish() (running bool) {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = true
	if p.entered {
		p.all.leave()
		p.timer.Stop()
		p.unwatch()
	}
	p.cancel(nil)
	return p.gaveUp
}

// MostAbandoned returns how many requests may wait for the upstream although their clients have left: at most half
// of its connections.
func MostAbandoned(connections int) int {
	const most = 256
	switch connections {
	case 0:
		return most
	case 1:
		return -1
	default:
		return min(most, connections/2)
	}
}
