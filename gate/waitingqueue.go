package gate

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

const (
	// front is how many requests of a waiting queue poll the store for their turn by themselves. The
	// others only renew their leases. This bounds the calls to the store, however many requests wait.
	// front is more than one because the first request here need not be the first in the store.
	front = 3
	// Requests in front poll less and less often. Their times are random within a half of these pauses,
	// so that processes do not all poll at once.
	leastPause = 2 * time.Millisecond
	mostPause  = time.Second
	// soonest bounds the pause while the wait is short.
	soonest = 20 * time.Millisecond
	// mostSteps bounds how far a request is moved forward in the order.
	mostSteps = 256
	// setBack is a difference in microseconds. If the store's time goes back by more between two
	// requests, its clock was set back. Then the requests keep the order in which they joined.
	setBack = 1_000_000
)

// waitingQueues are the requests that wait for leases of concurrency limits. Each limit and key has a
// queue, in the order in which the store granted the leases. See docs/adr/0014.
type waitingQueues struct {
	waiting atomic.Int64
	mu      sync.Mutex
	of      map[limitKey]*waitingQueue
}

type limitKey struct {
	limit string
	key   sluice.Key
}

func limitKeyOf(r *sluice.Request) limitKey { return limitKey{r.Limit.Name(), r.Key} }

// waitingQueue is a list of waiters.
type waitingQueue struct {
	first, last *waiter
	n           int
	// spare counts leases that ended while all waiters in front had a token.
	spare int
	// next is the waiter behind the front that polls next. When a waiter in front has polled without
	// success, it lets this waiter poll, because the order in the store may differ. Nil means the first
	// waiter behind the front.
	next *waiter
}

// waiter is one request in a waiting queue.
type waiter struct {
	key        limitKey
	at         int64         // when its lease was granted, in the store's time
	delay      time.Duration // the estimate then; longer than the estimate of an earlier waiter with the same at
	prev, next *waiter
	// wake makes the waiter poll the store: it has come to the front, has a token, or is the next
	// behind the front.
	wake chan struct{}
	// token says that a lease has ended, and that this waiter may get it. A waiter that cannot use its
	// token passes it on.
	token   bool
	inFront bool
}

// isBefore reports whether w was granted its lease before o was.
func (w *waiter) isBefore(o *waiter) bool { return w.at < o.at || w.at == o.at && w.delay < o.delay }

func (q *waitingQueues) init() { q.of = make(map[limitKey]*waitingQueue) }

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it has not looked since
	}
}

// join adds a waiter to its queue.
func (q *waitingQueues) join(key limitKey, at int64, delay time.Duration) *waiter {
	w := &waiter{key: key, at: at, delay: delay, wake: make(chan struct{}, 1)}
	q.waiting.Add(1)
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.of[key]
	if n == nil {
		n = &waitingQueue{}
		q.of[key] = n
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

// leave removes a waiter from its queue. If it was served without a token, more leases may have
// ended than there were tokens.
func (q *waitingQueues) leave(w *waiter, served bool) {
	q.waiting.Add(-1)
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.of[w.key]
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
		delete(q.of, w.key)
		return
	}
	n.spare = min(n.spare, n.n)
	n.promote()
	if served != w.token || n.spare > 0 {
		// Served without a token, or not served with one.
		if served == w.token {
			n.spare--
		}
		n.give(n.first)
	}
}

// promote wakes the waiters that have come to the front.
func (n *waitingQueue) promote() {
	w := n.first
	for i := 0; w != nil && i < front; i++ {
		if !w.inFront {
			w.inFront = true
			w.signal()
		}
		w = w.next
	}
}

// give gives a token to the first waiter in front that has none, from w on.
func (n *waitingQueue) give(w *waiter) {
	for ; w != nil && w.inFront; w = w.next {
		if !w.token {
			w.token = true
			w.signal()
			return
		}
	}
	n.spare = min(n.spare+1, n.n)
}

// freed wakes a waiter of a queue when a lease has ended in this process.
func (q *waitingQueues) freed(key limitKey) {
	if q.waiting.Load() == 0 {
		return // a waiter that joins now polls the store first
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.of[key]; n != nil {
		n.give(n.first)
	}
}

// look lets one waiter behind the front poll the store.
func (n *waitingQueue) look() {
	if n.next == nil {
		for n.next = n.first; n.next != nil && n.next.inFront; n.next = n.next.next {
		}
	}
	if n.next != nil {
		n.next.signal()
		n.next = n.next.next
	}
}

// pass is for a waiter whose turn has not come: it passes its token on, if it has one.
func (q *waitingQueues) pass(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !w.token {
		if w.inFront {
			q.of[w.key].look()
		}
		return
	}
	w.token = false
	if w.next != nil && w.next.inFront {
		q.of[w.key].give(w.next)
	}
}

// isInFront reports whether a waiter polls the store by itself.
func (q *waitingQueues) isInFront(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.inFront
}
