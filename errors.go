package sluice

import (
	"context"
	"errors"
	"fmt"
)

// Errors that callers can distinguish with errors.Is.
var (
	// ErrNever means that the cost is more than the limit can ever give. The errors of Wait name the limit and the cost.
	ErrNever = errors.New("sluice: the cost is more than the limit can ever give")
	// ErrDeadline means that the wait would last beyond the context's deadline. It wraps
	// context.DeadlineExceeded. The errors of Wait name the limit and the cost.
	ErrDeadline error = &sentinel{"sluice: the wait would last beyond the deadline", context.DeadlineExceeded}
	// ErrEnded means that the reservation or lease has already ended.
	ErrEnded = errors.New("sluice: already ended")
	// ErrActed means that the moment for which a charge was made has passed, so that Cancel gives nothing back. Its
	// owner may have acted. Settle, with an actual cost of 0, gives back what the algorithm still can.
	ErrActed = errors.New("sluice: the reservation's moment has passed; settle it at 0 if nothing was used")
	// ErrLeaseLost means that the TTL of the lease ended before the lease was released or renewed.
	ErrLeaseLost = errors.New("sluice: the lease was lost")
	// ErrUnsupported means that the limit's algorithm does not have the operation, such as a lease of a token bucket. It
	// wraps errors.ErrUnsupported.
	ErrUnsupported error = &sentinel{"sluice: not supported by the limit's algorithm", errors.ErrUnsupported}
	// ErrUnknownOutcome means that it is unknown whether the call changed the state.
	ErrUnknownOutcome = errors.New("sluice: the outcome is unknown")
	// ErrForeignState means that another program has written a value where the state of a key is kept. The
	// store decides nothing for the key, and the value stays.
	ErrForeignState = errors.New("sluice: the key holds something else than a state")
	// ErrClosed means that the store is closed.
	ErrClosed = errors.New("sluice: the store is closed")
)

// A sentinel is an error that is also an error of the standard library.
type sentinel struct {
	text string
	also error
}

func (e *sentinel) Error() string { return e.text }

// Unwrap returns the error of the standard library.
func (e *sentinel) Unwrap() error { return e.also }

// RateError reports a text that is not a rate.
type RateError struct {
	// Text is the text that is not a rate.
	Text string
	// Problem says what is wrong.
	Problem string
}

func (e *RateError) Error() string {
	return fmt.Sprintf("sluice: rate %q %s; write it as in 100/m, 5/s or 10/30s", e.Text, e.Problem)
}

// LimitError reports an invalid number of a limit.
type LimitError struct {
	// Limit is the name of the limit, empty for an unnamed one.
	Limit string
	// Field is the invalid number, such as "Rate".
	Field string
	// Problem says what is wrong.
	Problem string
	// Remedy says how to correct it. It may be empty.
	Remedy string
	// Nearest is the accepted rate nearest to a refused one, or the zero Rate. Remedy names it.
	Nearest Rate
}

func (e *LimitError) Error() string {
	name := "limit"
	if e.Limit != "" {
		name = fmt.Sprintf("limit %q", e.Limit)
	}
	return fmt.Sprintf("sluice: %s: %s %s", name, e.Field, withRemedy(e.Problem, e.Remedy))
}

// accept sets the nearest rate that is accepted, and names it in the remedy.
func (e *LimitError) accept(nearest Rate) *LimitError {
	if e.Nearest = nearest; !nearest.IsZero() {
		e.Remedy = withRemedy(e.Remedy, "the nearest rate that is accepted is "+nearest.String())
	}
	return e
}

// withRemedy joins a problem and its remedy, one of which may be empty.
func withRemedy(problem, remedy string) string {
	if problem == "" || remedy == "" {
		return problem + remedy
	}
	return problem + "; " + remedy
}

// RequestError reports an invalid request, which no store can decide.
type RequestError struct {
	// Limit is the name of the request's limit, empty if there is none.
	Limit string
	// Problem says what is wrong.
	Problem string
	// Err is ErrUnsupported if the limit's algorithm does not have the operation, and otherwise nil.
	Err error
}

// Unwrap returns Err.
func (e *RequestError) Unwrap() error { return e.Err }

func (e *RequestError) Error() string {
	if e.Limit == "" {
		return "sluice: request: " + e.Problem
	}
	return fmt.Sprintf("sluice: request to limit %q: %s", e.Limit, e.Problem)
}
