package gate

import (
	"errors"
	"fmt"
)

// Why a request is refused that asked to enter, for errors.Is. Others are sluice.ErrDeadline (the
// wait would last beyond the context's deadline), sluice.ErrLeaseLost (of a request that was
// queued), the store's own, and the context's, of a client that went away.
var (
	// ErrDenied says that the verdict itself is a denial.
	ErrDenied = errors.New("gate: the verdict is a denial")
	// ErrTooLate says that the turn of the request comes later than it may wait.
	ErrTooLate = errors.New("the wait is longer than requests may wait")
	// ErrQueueFull says that as many requests wait by the rule as may.
	ErrQueueFull = errors.New("the queue is full")
	// ErrKeyQueueFull says that as many requests of the key wait by the rule as may.
	ErrKeyQueueFull = errors.New("the queue is full of the key's requests")
	// ErrTooManyWaiting says that as many requests wait in this process as may, by whatever rule.
	ErrTooManyWaiting = errors.New("too many requests are waiting")
)

// Error says which rule's limit the gate could not let a request wait for, and why.
type Error struct {
	// Rule is the rule's name, empty for a limit that is no rule's.
	Rule string
	// Limit is the name of the limit.
	Limit string
	// Err is the cause.
	Err error
}

func (e *Error) Error() string {
	if e.Rule == "" {
		return fmt.Sprintf("gate: limit %q: %v", e.Limit, e.Err)
	}
	return fmt.Sprintf("gate: rule %q: %v", e.Rule, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
