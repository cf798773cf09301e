package gate

import (
	"context"
	"sync/atomic"

	"github.com/sluicehq/sluice/policy"
)

// Admission is a request that has entered. The nil Admission has nothing to end.
type Admission struct {
	gate *Gate
	met  []policy.LimitResult
	held *hold
	left atomic.Bool
}

// Settles reports whether Leave looks at the outcome, so that it needs be known.
func (p *Admission) Settles() bool {
	if p == nil {
		return false
	}
	if p.gate.o.Counts != nil {
		return true
	}
	for i := range p.met {
		if m := &p.met[i]; charged(m) && m.Settles() {
			return true
		}
	}
	return false
}

// Leave ends what the request holds, and settles what it turned out to cost, or that it
// does not count. It is called once, when the request has been handled or has panicked; a second call does
// nothing. The end of ctx does not keep it from that; its values are for Options.OnError.
func (p *Admission) Leave(ctx context.Context, o policy.Outcome) {
	if p == nil || p.left.Swap(true) {
		return
	}
	ctx = context.WithoutCancel(ctx)
	p.held.release(ctx)
	counts := p.gate.o.Counts == nil || p.gate.o.Counts(o)
	for i := range p.met {
		m := &p.met[i]
		if !charged(m) {
			continue
		}
		actual := int64(0)
		if counts {
			actual = m.Actual(o)
		}
		if actual != m.Request.Cost {
			p.tell(ctx, p.gate.store.Settle(ctx, m.Request.Charge(&m.Decision), actual))
		}
	}
}

// undo gives back what a request took that is not to be handled.
func (p *Admission) undo(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	p.left.Store(true)
	p.held.cancel(ctx)
	for i := range p.met {
		m := &p.met[i]
		if !charged(m) {
			continue
		}
		c := m.Request.Charge(&m.Decision)
		if m.Decision.Delay > 0 {
			p.tell(ctx, p.gate.store.Cancel(ctx, c))
		} else {
			// Its own moment was when it was charged, and canceling gives back nothing
			// of what was to act by now.
			p.tell(ctx, p.gate.store.Settle(ctx, c, 0))
		}
	}
}

func (p *Admission) tell(ctx context.Context, err error) { p.gate.tell(ctx, err) }

func (g *Gate) tell(ctx context.Context, err error) {
	if err != nil {
		g.o.OnError(ctx, err)
	}
}

// isLease reports whether a decision granted a lease.
func isLease(m *policy.LimitResult) bool {
	return m.Request.Member != 0 && m.Decision.Allowed && !m.Returned && m.Request.Cost > 0 && !m.Request.Peek
}
