package httplimit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// Reasons for which a request is not let to wait.
var (
	// ErrDelayTooLong says that the delay is longer than requests may wait.
	ErrDelayTooLong = errors.New("httplimit: the delay is longer than requests may wait")
	// ErrTooManyWaiting says that as many requests wait as may.
	ErrTooManyWaiting = errors.New("httplimit: too many requests are waiting")
)

// Waiter lets requests wait, each for a bounded time and a bounded number of them
// at once. It is safe for concurrent use.
type Waiter struct {
	delay   time.Duration
	most    int64
	waiting atomic.Int64
}

// NewWaiter returns a Waiter for up to maxWaiting requests that each wait up to
// maxDelay. Zeros are the defaults of Options; with a negative maxDelay none waits.
func NewWaiter(maxDelay time.Duration, maxWaiting int) *Waiter {
	if maxDelay == 0 {
		maxDelay = defaultDelay
	}
	if maxWaiting == 0 {
		maxWaiting = defaultWaiting
	}
	return &Waiter{delay: maxDelay, most: int64(maxWaiting)}
}

// Waiting returns how many requests wait now.
func (w *Waiter) Waiting() int { return int(w.waiting.Load()) }

// MaxDelay returns the longest time that a request may wait; negative for none.
func (w *Waiter) MaxDelay() time.Duration { return w.delay }

// Wait returns after d, or with the context's error when that ends before. At once
// it returns ErrDelayTooLong, ErrTooManyWaiting, or sluice.ErrDeadline if the context's
// deadline is before the end of d.
func (w *Waiter) Wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d <= 0 {
		return nil
	}
	if d > w.delay {
		return ErrDelayTooLong
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return sluice.ErrDeadline
	}
	if w.waiting.Add(1) > w.most {
		w.waiting.Add(-1)
		return ErrTooManyWaiting
	}
	defer w.waiting.Add(-1)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
