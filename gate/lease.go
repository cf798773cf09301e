package gate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// leastLatency is the shortest time for which a lease counts as held. A limit whose latency came
// down to nothing would estimate no delay for requests that must wait.
const leastLatency = 2 * time.Microsecond

// leases are the leases of a request, from the grant until the request has been handled. They are
// renewed at half their time to live, so that a download or a WebSocket that lasts longer is still
// counted as in flight.
type leases struct {
	gate     *Gate
	ctx      context.Context //nolint:containedctx // of the request, for renewals
	requests []sluice.Request
	charges  []sluice.Charge // of each request, as granted or renewed
	interval time.Duration
	began    time.Time

	mu    sync.Mutex
	ended bool
	timer *time.Timer
}

// hold returns the leases of a verdict, or nil if it has none.
func (g *Gate) hold(ctx context.Context, v *policy.Verdict) *leases {
	var h *leases
	for i := range v.Results {
		r := &v.Results[i]
		if !r.IsLease() {
			continue
		}
		if h == nil {
			h = &leases{gate: g, ctx: context.WithoutCancel(ctx), interval: 1<<63 - 1}
		}
		h.requests = append(h.requests, r.Request)
		h.charges = append(h.charges, r.Charge())
		h.interval = min(h.interval, r.Request.Limit.LeaseTTL()/2)
	}
	if h != nil {
		h.began = time.Now()
		h.mu.Lock()
		h.timer = time.AfterFunc(h.interval, h.renew)
		h.mu.Unlock()
	}
	return h
}

// begin marks the moment when the request starts to be handled: latency does not include waiting.
func (h *leases) begin() {
	if h != nil {
		h.began = time.Now()
	}
}

// renew prolongs all leases. The store grants a lost lease again if it has room.
func (h *leases) renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return // otherwise a lease would begin that nobody ends
	}
	for i := range h.requests {
		d, err := h.gate.store.Decide(h.ctx, h.requests[i])
		if err == nil && !d.Allowed {
			err = sluice.ErrLeaseLost
		}
		if err != nil {
			h.gate.report(h.ctx, err)
			continue
		}
		h.charges[i] = h.requests[i].Charge(&d)
	}
	h.timer.Reset(h.interval)
}

// release ends the leases of a request that was handled, and reports its latency to the limits.
func (h *leases) release(ctx context.Context) {
	if h == nil {
		return
	}
	store, latency := h.gate.store, max(leastLatency, time.Since(h.began))
	h.end(ctx, func(ctx context.Context, c sluice.Charge) error { return store.Release(ctx, c, latency) })
}

// cancel ends the leases of a request that was not handled.
func (h *leases) cancel(ctx context.Context) {
	if h != nil {
		h.end(context.WithoutCancel(ctx), h.gate.store.Cancel)
	}
}

// abandon stops renewing the leases, and leaves them to their time to live. The work of the request may go on.
func (h *leases) abandon() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.timer.Stop()
}

// endLease ends one lease.
type endLease func(context.Context, sluice.Charge) error

func (h *leases) end(ctx context.Context, one endLease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	h.ended = true
	h.timer.Stop()
	var failed []sluice.Charge
	for i := range h.charges {
		err := one(ctx, h.charges[i])
		h.gate.report(h.ctx, err)
		h.gate.queues.freed(limitKeyOf(&h.requests[i]))
		if mayEndLater(err) {
			failed = append(failed, h.charges[i])
		}
	}
	if len(failed) > 0 {
		h.gate.endLater(failed, one)
	}
}

const (
	// mostEnds bounds how many requests have leases to be ended later. The leases of further
	// requests end by their time to live.
	mostEnds = 1 << 14
	firstEnd = 250 * time.Millisecond
	lastEnd  = 4 * time.Second
)

// mayEndLater reports whether the end of a lease that failed with err may succeed later.
func mayEndLater(err error) bool {
	var invalid *sluice.RequestError
	return err != nil && !errors.Is(err, sluice.ErrLeaseLost) && !errors.Is(err, sluice.ErrUnsupported) && !errors.As(err, &invalid)
}

// endLater tries again to end leases, until they have expired. Suppose that a store does not answer for
// a second. Without endLater, it would count the requests that ended in that second as in flight for
// the leases' whole time to live. endLater keeps nothing of the request.
func (g *Gate) endLater(charges []sluice.Charge, one endLease) {
	var lives time.Duration
	for i := range charges {
		lives = max(lives, charges[i].Limit.LeaseTTL())
	}
	g.ends.Start(time.Now().Add(lives), func() (done bool) {
		var failed []sluice.Charge
		for _, c := range charges {
			if mayEndLater(one(context.Background(), c)) {
				failed = append(failed, c)
				continue
			}
			g.queues.freed(limitKey{c.Limit.Name(), c.Key})
		}
		charges = failed
		return len(failed) == 0
	})
}
