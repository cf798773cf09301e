package httplimit

import (
	"net/http"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// leases are what a request holds of concurrency limits while it is handled. They
// are renewed at half their time to live: a download or a WebSocket can last
// longer, and still is one of those in flight.
type leases struct {
	m        *Middleware
	r        *http.Request
	requests []sluice.Request
	charges  []sluice.Charge // of each request, as granted or renewed
	interval time.Duration
	began    time.Time

	mu    sync.Mutex
	ended bool
	timer *time.Timer
}

// defaultTTL is that of sluice.Concurrency.
const defaultTTL = time.Minute

// hold returns the leases of a request, or nil if it has none.
func (m *Middleware) hold(r *http.Request, v *policy.Verdict) *leases {
	var l *leases
	for i := range v.Met {
		q := &v.Met[i]
		if q.Request.Member == 0 || !q.Decision.Allowed {
			continue
		}
		if l == nil {
			l = &leases{m: m, r: r, interval: defaultTTL / 2, began: time.Now()}
		}
		l.requests = append(l.requests, q.Request)
		l.charges = append(l.charges, q.Request.Charge(&q.Decision))
		if c, ok := q.Request.Limit.Algorithm().(sluice.Concurrency); ok && c.TTL > 0 {
			l.interval = min(l.interval, c.TTL/2)
		}
	}
	if l != nil {
		l.mu.Lock()
		l.timer = time.AfterFunc(l.interval, l.renew)
		l.mu.Unlock()
	}
	return l
}

// renew prolongs all leases. One that was lost is taken anew if there is room.
func (l *leases) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return // or a lease would begin that nobody ends
	}
	for i := range l.requests {
		d, err := l.m.decider.Store().Decide(ending(l.r), l.requests[i])
		if err == nil && !d.Allowed {
			err = sluice.ErrLeaseLost
		}
		if err != nil {
			l.m.o.OnError(l.r, err)
			continue
		}
		l.charges[i] = l.requests[i].Charge(&d)
	}
	l.timer.Reset(l.interval)
}

// release ends the leases and tells the limits how long they were held.
func (l *leases) release() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.timer.Stop()
	for i := range l.charges {
		if err := l.m.decider.Store().Release(ending(l.r), l.charges[i], time.Since(l.began)); err != nil {
			l.m.o.OnError(l.r, err)
		}
	}
}
