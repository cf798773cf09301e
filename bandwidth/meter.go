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

// meter holds one direction of a connection to its flows. One goroutine at a time
// takes; any may close.
type meter struct {
	ctx   context.Context
	cut   *deadline // of a Conn, otherwise nil
	timer *time.Timer

	mu     sync.Mutex
	tolls  []toll
	closed bool
}

func newMeter(ctx context.Context, cut *deadline, flows []Flow) *meter {
	m := &meter{ctx: ctx, cut: cut}
	for _, f := range flows {
		if !f.IsZero() {
			m.tolls = append(m.tolls, toll{flow: f})
		}
	}
	return m
}

// chunk returns how many of n bytes to move at a time, 1 at least: what is paid for, or a
// chunk.
func (m *meter) chunk(n int64) int64 {
	if len(m.tolls) == 0 {
		return n
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.tolls {
		t := &m.tolls[i]
		if t.credit > 0 {
			n = min(n, t.credit)
		} else {
			n = min(n, t.flow.limiter.chunk)
		}
	}
	return n
}

// take pays for n bytes, a chunk at most, and returns when they may move. If it
// fails, they are owed. To take none is to pay what is owed.
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

// pay pays for n bytes of each flow, and tells how long to wait for the last of
// them; or, if they are not all paid for, until it is worth asking again.
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
	for i := range m.tolls {
		t := &m.tolls[i]
		if t.credit >= 0 {
			continue
		}
		delay, err := m.payOne(t)
		if err != nil {
			return 0, false, err
		}
		wait, paid = max(wait, delay), paid && t.credit >= 0
	}
	return wait, paid, nil
}

// spend takes n bytes from what is paid for, and reports whether they are more. What was
// paid for long ago goes back first: others of the key may need it.
func (m *meter) spend(n int64) (owes bool) {
	if len(m.tolls) == 0 {
		return false
	}
	now := time.Now()
	for i := range m.tolls {
		t := &m.tolls[i]
		if t.credit > 0 && now.Sub(t.moment) > busy {
			_ = t.end(context.WithoutCancel(m.ctx)) // what cannot be given back is lost
		}
		t.credit -= n
		owes = owes || t.credit < 0
	}
	return owes
}

// payOne pays what is owed to one flow, and tells how long to wait for it. If the store
// does not take it yet, it is still owed.
func (m *meter) payOne(t *toll) (time.Duration, error) {
	now := time.Now()
	left, late := m.left(now)
	if left <= 0 {
		return 0, late
	}
	d, err := t.pay(m.ctx, now, left)
	switch {
	case err != nil && m.ctx.Err() != nil:
		return 0, m.ctx.Err()
	case err == nil && d.Allowed:
		return d.Delay, nil
	case err == nil && d.Reason == sluice.ReasonLimited && left < forever:
		return 0, late
	case err == nil && d.Reason == sluice.ReasonLimited && d.RetryAfter > 0:
		return d.RetryAfter, nil // more is waiting than a bucket counts
	case err == nil:
		err = &RefusedError{t.flow.limiter.limit.Name(), d.Reason}
	}
	if err = t.flow.limiter.onError(m.ctx, err); err == nil {
		t.forgive()
	}
	return 0, err
}

// left returns how long may be waited, and the error for what takes longer.
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

// back takes note of n bytes that were taken and did not move.
func (m *meter) back(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.tolls {
		m.tolls[i].credit += n
	}
}

// settle gives back what was paid for and has not moved.
func (m *meter) settle() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end()
}

func (m *meter) end() error {
	var errs []error
	for i := range m.tolls {
		errs = append(errs, m.tolls[i].end(context.WithoutCancel(m.ctx)))
	}
	return errors.Join(errs...)
}

// close settles. Nothing can be taken afterwards.
func (m *meter) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	return m.end()
}
