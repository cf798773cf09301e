package rls

import (
	"context"
	"sync"
	"time"
)

// early is a context that ends a little before the context of a call. It starts a timer only when Done is called,
// because a guard whose own deadline is shorter needs no timer. It is safe for concurrent use.
type early struct {
	context.Context
	deadline time.Time

	mu     sync.Mutex
	timed  context.Context // nil before the first Done
	cancel context.CancelFunc
}

// Deadline returns the earlier deadline.
func (e *early) Deadline() (time.Time, bool) { return e.deadline, true }

// Done returns a channel that is closed at the earlier deadline.
func (e *early) Done() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timed == nil {
		e.timed, e.cancel = context.WithDeadline(e.Context, e.deadline)
	}
	return e.timed.Done()
}

// Err returns why the context has ended, nil if it has not.
func (e *early) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timed != nil {
		return e.timed.Err()
	}
	if err := e.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(e.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value returns a value of the call's context. Package context uses it to end derived contexts without a goroutine for
// each.
func (e *early) Value(key any) any {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timed != nil {
		return e.timed.Value(key)
	}
	return e.Context.Value(key)
}

// end stops the timer, when the decision is made.
func (e *early) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cancel != nil {
		e.cancel()
	}
}
