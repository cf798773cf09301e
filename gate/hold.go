package gate

import (
	"context"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// leastLatency is what a lease was held for at least: limits whose latency has come down to
// nothing would estimate no delay for those who must wait.
const leastLatency = 2 * time.Microsecond

// hold is the leases of a request, from when they were granted to when it has been
// handled. They are renewed at half their time to live: a download or a WebSocket can last
// longer, and still is one of those in flight.
type hold struct {
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
func (g *Gate) hold(ctx context.Context, v *policy.Verdict) *hold {
	var h *hold
	for i := range v.Results {
		m := &v.Results[i]
		if !isLease(m) || !v.Allowed() && !m.Request.Shadow {
			continue
		}
		if h == nil {
			h = &hold{gate: g, ctx: context.WithoutCancel(ctx), interval: 1<<63 - 1}
		}
		h.requests = append(h.requests, m.Request)
		h.charges = append(h.charges, m.Request.Charge(&m.Decision))
		h.interval = min(h.interval, m.Request.Limit.LeaseTTL()/2)
	}
	if h != nil {
		h.began = time.Now()
		h.mu.Lock()
		h.timer = time.AfterFunc(h.interval, h.renew)
		h.mu.Unlock()
	}
	return h
}

// begin says that the request begins to run now: waiting is no work.
func (h *hold) begin() {
	if h != nil {
		h.began = time.Now()
	}
}

// renew prolongs all leases. One that was lost is taken anew if there is room.
func (h *hold) renew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return // or a lease would begin that nobody ends
	}
	for i := range h.requests {
		d, err := h.gate.store.Decide(h.ctx, h.requests[i])
		if err == nil && !d.Allowed {
			err = sluice.ErrLeaseLost
		}
		if err != nil {
			h.gate.tell(h.ctx, err)
			continue
		}
		h.charges[i] = h.requests[i].Charge(&d)
	}
	h.timer.Reset(h.interval)
}

// release ends the leases and tells the limits how long they were held.
func (h *hold) release(ctx context.Context) {
	if h == nil {
		return
	}
	store, latency := h.gate.store, max(leastLatency, time.Since(h.began))
	h.end(ctx, func(ctx context.Context, c sluice.Charge) error { return store.Release(ctx, c, latency) })
}

// cancel ends the leases of a request that was not handled.
func (h *hold) cancel(ctx context.Context) {
	if h != nil {
		h.end(context.WithoutCancel(ctx), h.gate.store.Cancel)
	}
}

func (h *hold) end(ctx context.Context, one ending) {
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
		h.gate.tell(h.ctx, err)
		h.gate.lines.freed(lineOf(&h.requests[i]))
		if mayEndLater(err) {
			failed = append(failed, h.charges[i])
		}
	}
	if len(failed) > 0 {
		h.gate.endLater(failed, one)
	}
}
