package gate

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

const (
	// front is how many of those who stand in a line ask the store by themselves whether
	// it is their turn. The others only keep their leases: however many wait in however many
	// processes, what they ask is bounded. It is more than one since who stands first here need
	// not be first in the store.
	front = 3
	// Who asks by itself does so more and more seldom, and at random times within a half of
	// these, so that processes do not ask all at once.
	leastPause = 2 * time.Millisecond
	mostPause  = time.Second
	// soonest bounds how seldom it asks at the longest while the wait is short.
	soonest = 20 * time.Millisecond
	// mostSteps bounds how far back a waiter's place in the line is looked for.
	mostSteps = 256
	// setBack is by how much the time of the store, in microseconds, must go back between two who come
	// for its clock to have been set back. Then their order here is that in which they come.
	setBack = 1_000_000
)

// lines are those who wait for a place of a concurrency limit's key, in the order in which
// they asked for it.
type lines struct {
	waiting atomic.Int64
	mu      sync.Mutex
	of      map[lineKey]*line
}

type lineKey struct {
	limit string
	key   sluice.Key
}

func lineOf(r *sluice.Request) lineKey { return lineKey{r.Limit.Name(), r.Key} }

// line is a list of waiters.
type line struct {
	first, last *waiter
	n           int
	// spare are places that were freed while all in front had been told of one.
	spare int
	// next is who behind the front is to ask next: whoever asks in vain lets one of them ask, in
	// case that the order in the store is another one. Nil begins with the first of them.
	next *waiter
}

// waiter is one who stands in a line.
type waiter struct {
	key        lineKey
	at         int64         // when its lease was granted, in the store's time
	delay      time.Duration // that it was told then, more than those before it at the same time
	prev, next *waiter
	// wake tells it to look again: it has come to the front, or has a token.
	wake chan struct{}
	// token says that it was told of a place that was freed. Who cannot use it hands it on.
	token   bool
	inFront bool
}

// isBefore reports whether w was granted its lease before o was.
func (w *waiter) isBefore(o *waiter) bool { return w.at < o.at || w.at == o.at && w.delay < o.delay }

func (l *lines) init() { l.of = make(map[lineKey]*line) }

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it has not looked since
	}
}

// join puts a waiter into its line.
func (l *lines) join(key lineKey, at int64, delay time.Duration) *waiter {
	w := &waiter{key: key, at: at, delay: delay, wake: make(chan struct{}, 1)}
	l.waiting.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.of[key]
	if n == nil {
		n = &line{}
		l.of[key] = n
	}
	before := n.last
	if before != nil && before.at > at+setBack {
		w.at, w.delay = before.at, before.delay
	}
	for steps := 0; before != nil && w.isBefore(before) && steps < mostSteps; steps++ {
		before = before.prev
	}
	w.prev = before
	if before == nil {
		w.next, n.first = n.first, w
	} else {
		w.next, before.next = before.next, w
	}
	if w.next == nil {
		n.last = w
	} else {
		w.next.prev = w
	}
	n.n++
	n.promote()
	return w
}

// leave takes a waiter out of its line. One who got its place without a token has found
// what others may find, too.
func (l *lines) leave(w *waiter, served bool) {
	l.waiting.Add(-1)
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.of[w.key]
	if w.prev == nil {
		n.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		n.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	n.n--
	if n.next == w {
		n.next = w.next
	}
	if served {
		n.next = nil
	}
	if n.n == 0 {
		delete(l.of, w.key)
		return
	}
	n.spare = min(n.spare, n.n)
	n.promote()
	if served != w.token || n.spare > 0 {
		// Served without being told, or told and not served.
		if served == w.token {
			n.spare--
		}
		n.give(n.first)
	}
}

// promote tells those who have come to the front.
func (n *line) promote() {
	w := n.first
	for i := 0; w != nil && i < front; i++ {
		if !w.inFront {
			w.inFront = true
			w.signal()
		}
		w = w.next
	}
}

// give gives a token to the first of those in front who has none, from w on.
func (n *line) give(w *waiter) {
	for ; w != nil && w.inFront; w = w.next {
		if !w.token {
			w.token = true
			w.signal()
			return
		}
	}
	n.spare = min(n.spare+1, n.n)
}

// freed tells a line that a place was freed in this process.
func (l *lines) freed(key lineKey) {
	if l.waiting.Load() == 0 {
		return // who joins now asks first
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.of[key]; n != nil {
		n.give(n.first)
	}
}

// look lets one ask who is behind the front.
func (n *line) look() {
	if n.next == nil {
		for n.next = n.first; n.next != nil && n.next.inFront; n.next = n.next.next {
		}
	}
	if n.next != nil {
		n.next.signal()
		n.next = n.next.next
	}
}

// pass is for one who asked and whose turn it was not: it hands its token on, if it has one.
func (l *lines) pass(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !w.token {
		if w.inFront {
			l.of[w.key].look()
		}
		return
	}
	w.token = false
	if w.next != nil && w.next.inFront {
		l.of[w.key].give(w.next)
	}
}

// isFront reports whether a waiter is to ask by itself.
func (l *lines) isFront(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.inFront
}

// storeError is an error of the store that refuses a request that waits.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// await waits until it is the turn of a request that is queued by a concurrency limit:
// until the store, asked again, knows of no delay. Its lease is renewed meanwhile.
func (g *Gate) await(ctx context.Context, m *policy.LimitResult, until time.Time) (err error) {
	w := g.lines.join(lineOf(&m.Request), m.Decision.Receipt.At, m.Decision.Delay)
	defer func() { g.lines.leave(w, err == nil) }()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for pause := leastPause; ; {
		inFront := g.lines.isFront(w)
		left := time.Until(until)
		if left <= 0 {
			return ErrTooLate
		}
		if inFront {
			left = min(left, pause/2+rand.N(pause))
			pause = min(2*pause, mostPause, max(soonest, m.Decision.Delay/2))
		}
		timer.Reset(left)
		select {
		case <-w.wake:
		case <-timer.C:
			if !inFront {
				continue
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		d, err := g.store.Decide(ctx, m.Request)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && m.Rule != nil && m.Rule.OnStoreError == policy.FallbackDeny:
			return &storeError{err}
		case err != nil:
			// It holds its lease, and the rule lets requests pass that the store cannot decide.
			g.tell(ctx, err)
			return nil
		case !d.Allowed:
			m.Decision = d
			return sluice.ErrLeaseLost
		}
		m.Decision.Delay = d.Delay
		if d.Delay <= 0 {
			return nil
		}
		g.lines.pass(w)
	}
}
