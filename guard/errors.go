package guard

import (
	"errors"
	"fmt"

	"github.com/sluicehq/sluice"
)

// Errors that callers may want to tell apart, with errors.Is. Decisions do not
// return them, for the ladder answers; ends and resets do.
var (
	// ErrOpen says that the store is failing and was not asked.
	ErrOpen = errors.New("guard: the store is failing and is not asked until a probe succeeds; try again in a second")
	// ErrBusy says that as many calls are in flight as may be, and the store was not asked.
	ErrBusy = errors.New("guard: too many calls of the store are in flight; try again in a second")
	// ErrLate says that the store did not answer by the deadline. It comes with
	// sluice.ErrUnknownOutcome, unless the store itself says that nothing was changed.
	ErrLate = errors.New("guard: the store did not answer in time")
	// ErrSlow says that the store answered, but took longer than Options.Slow. Only
	// Options.OnTransition and Stats.Last tell it.
	ErrSlow = errors.New("guard: the store is slow")
)

// errLate is ErrLate of a call that was made.
var errLate = fmt.Errorf("%w: %w", ErrLate, sluice.ErrUnknownOutcome)

// errNoBanner reports a store that is no sluice.Banner.
var errNoBanner = fmt.Errorf("guard: the store does not list bans, nor take them by hand: %w", errors.ErrUnsupported)

// PanicError reports a store that panicked. Nobody knows what it did before.
type PanicError struct {
	// Value is what it panicked with.
	Value any
	// Stack is that of the goroutine.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("guard: the store panicked: %v", e.Value) }

// Unwrap returns sluice.ErrUnknownOutcome.
func (e *PanicError) Unwrap() error { return sluice.ErrUnknownOutcome }

// isAnswer reports whether an error is what a store that works says of the question.
func isAnswer(err error) bool {
	var request *sluice.RequestError
	return errors.As(err, &request) || errors.Is(err, sluice.ErrUnsupported) || errors.Is(err, sluice.ErrEnded) ||
		errors.Is(err, sluice.ErrLeaseLost) || errors.Is(err, sluice.ErrClosed) || errors.Is(err, errNoBanner)
}
