package bandwidth

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// forever is the longest wait: one that no deadline bounds.
const forever = time.Duration(math.MaxInt64)

// prepaid holds the prepaid bytes that one connection has of one flow. It pays for a chunk at a
// time. So it calls the store rarely, and a connection that writes a line at a time gets as
// much as one that writes megabytes.
type prepaid struct {
	flow Flow
	// credit is how many prepaid bytes have not moved yet. It is negative for bytes that have
	// moved and are owed.
	credit int64
	// charge is the last payment. The credit is the rest of it.
	charge sluice.Charge
	// moment is when the bytes of the last payment may move.
	moment time.Time
}

// busy is how long a connection counts as busy after a payment. Within this time it pays for a
// whole chunk; after it, it gives prepaid bytes back.
const busy = BurstTime + ChunkTime

// pay pays for the owed bytes, or for as many as the store admits at once. The decision
// has the delay until they may move, which is at most left.
func (p *prepaid) pay(ctx context.Context, now time.Time, left time.Duration) (d sluice.Decision, err error) {
	l := p.flow.limiter
	cost := -p.credit
	if now.Sub(p.moment) < busy {
		cost = max(cost, l.chunk)
	}
	q := sluice.Request{Limit: l.limit, Key: p.flow.key, Cost: cost, MaxWait: left}
	d, err = l.store.Decide(ctx, q)
	if err == nil && !d.Allowed && 0 < d.Limit && d.Limit < cost {
		// A fallback has a share of the limit, which may be less than a chunk.
		q.Cost = d.Limit
		d, err = l.store.Decide(ctx, q)
	}
	if err == nil && d.Allowed {
		p.credit += q.Cost
		p.charge = q.Charge(&d)
		p.moment = now.Add(d.Delay)
	}
	return d, err
}

// forgive cancels what is owed.
func (p *prepaid) forgive() { p.credit, p.charge = 0, sluice.Charge{} }

// end gives back the prepaid bytes, or pays the owed ones without waiting.
func (p *prepaid) end(ctx context.Context) error {
	l, credit := p.flow.limiter, p.credit
	defer p.forgive()
	switch {
	case credit < 0:
		_, err := l.store.Decide(ctx, sluice.Request{Limit: l.limit, Key: p.flow.key, Cost: -credit, MaxWait: forever})
		return err
	case credit > 0 && p.charge.Limit != nil:
		return l.store.Settle(ctx, p.charge, max(0, p.charge.Cost-credit))
	}
	return nil
}

// meter keeps one direction of a connection to the rates of its flows. One goroutine at a time
// may call take; any goroutine may call close.
type meter struct {
	ctx   context.Context
	cut   *deadline // the deadline of a Conn, otherwise nil
	timer *time.Timer

	mu     sync.Mutex
	flows  []prepaid
	closed bool
}

func newMeter(ctx context.Context, cut *deadline, flows []Flow) *meter {
	m := &meter{ctx: ctx, cut: cut}
	for _, f := range flows {
		if !f.IsZero() {
			m.flows = append(m.flows, prepaid{flow: f})
		}
	}
	return m
}

// chunk returns how many of n bytes to move at a time, 1 at least: the prepaid bytes, or a
// chunk.
func (m *meter) chunk(n int64) int64 {
	if len(m.flows) == 0 {
		return n
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.flows {
		p := &m.flows[i]
		if p.credit > 0 {
			n = min(n, p.credit)
		} else {
			n = min(n, p.flow.limiter.chunk)
		}
	}
	return n
}

// take pays for n bytes, at most a chunk, and returns when they may move. If it fails, they
// are owed. take(0) pays what is owed.
func (m *meter) take(n int64) error {
	for {
		wait, paid, err := m.pay(n)
		if err != nil {
			return err
		}
		if err := m.sleep(wait); err != nil || paid {
			return err
		}
		n = 0
	}
}

// pay pays for n bytes of each flow. It returns how long to wait until they may move. If not
// all of them are paid for, it returns how long to wait until the next try.
func (m *meter) pay(n int64) (wait time.Duration, paid bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	owes := m.spend(n)
	switch {
	case m.closed:
		return 0, false, io.ErrClosedPipe
	case m.ctx.Err() != nil:
		return 0, false, m.ctx.Err()
	case !owes:
		return 0, true, nil
	}
	paid = true
	for i := range m.flows {
		p := &m.flows[i]
		if p.credit >= 0 {
			continue
		}
		delay, err := m.payOne(p)
		if err != nil {
			return 0, false, err
		}
		wait, paid = max(wait, delay), paid && p.credit >= 0
	}
	return wait, paid, nil
}

// spend takes n bytes from the prepaid bytes, and reports whether bytes are owed then. Before
// that, it gives back bytes that were paid for long ago: other connections of the key may need
// them.
func (m *meter) spend(n int64) (owes bool) {
	if len(m.flows) == 0 {
		return false
	}
	now := time.Now()
	for i := range m.flows {
		p := &m.flows[i]
		if p.credit > 0 && now.Sub(p.moment) > busy {
			_ = p.end(context.WithoutCancel(m.ctx)) // what cannot be given back is lost
		}
		p.credit -= n
		owes = owes || p.credit < 0
	}
	return owes
}

// payOne pays what is owed to one flow, and returns how long to wait. If the store does not
// admit the payment yet, the bytes are still owed.
func (m *meter) payOne(p *prepaid) (time.Duration, error) {
	now := time.Now()
	left, late := m.left(now)
	if left <= 0 {
		return 0, late
	}
	d, err := p.pay(m.ctx, now, left)
	switch {
	case err != nil && m.ctx.Err() != nil:
		return 0, m.ctx.Err()
	case err == nil && d.Allowed:
		return d.Delay, nil
	case err == nil && d.Reason == sluice.ReasonLimited && left < forever:
		return 0, late
	case err == nil && d.Reason == sluice.ReasonLimited && d.RetryAfter > 0:
		return d.RetryAfter, nil // more bytes wait than a bucket can count
	case err == nil:
		err = &RefusedError{p.flow.limiter.limit.Name(), d.Reason}
	}
	if err = p.flow.limiter.onError(m.ctx, err); err == nil {
		p.forgive()
	}
	return 0, err
}

// left returns how long a wait may be, and the error for a longer one.
func (m *meter) left(now time.Time) (time.Duration, error) {
	left, late := forever, error(nil)
	if at, ok := m.ctx.Deadline(); ok {
		left, late = at.Sub(now), errDeadline
	}
	if m.cut != nil {
		if at := m.cut.time(); !at.IsZero() && at.Sub(now) < left {
			left, late = at.Sub(now), os.ErrDeadlineExceeded
		}
	}
	return left, late
}

// sleep waits for d or the end of the context.
func (m *meter) sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if m.timer == nil {
		m.timer = time.NewTimer(d)
	} else {
		m.timer.Reset(d)
	}
	var cut <-chan struct{}
	if m.cut != nil {
		cut = m.cut.passed()
	}
	select {
	case <-m.timer.C:
		return nil
	case <-m.ctx.Done():
		m.timer.Stop()
		return m.ctx.Err()
	case <-cut:
		m.timer.Stop()
		return os.ErrDeadlineExceeded
	}
}

// back returns n bytes that were taken and did not move.
func (m *meter) back(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.flows {
		m.flows[i].credit += n
	}
}

// settle gives back the prepaid bytes that have not moved.
func (m *meter) settle() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end()
}

func (m *meter) end() error {
	var errs []error
	for i := range m.flows {
		errs = append(errs, m.flows[i].end(context.WithoutCancel(m.ctx)))
	}
	return errors.Join(errs...)
}

// close settles. take fails afterwards.
func (m *meter) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	return m.end()
}
