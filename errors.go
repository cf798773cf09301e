package sluice

import (
	"errors"
	"fmt"
)

// Errors that callers may want to tell apart, with errors.Is.
var (
	// ErrNever says that the cost is more than the limit could ever give.
	ErrNever = errors.New("sluice: the cost is more than the limit can ever give")
	// ErrDeadline says that the wait would last beyond the context's deadline.
	ErrDeadline = errors.New("sluice: the wait would last beyond the deadline")
	// ErrEnded says that a reservation or lease was ended before.
	ErrEnded = errors.New("sluice: already ended")
	// ErrLeaseLost says that a lease's time to live ended before it was released
	// or renewed.
	ErrLeaseLost = errors.New("sluice: the lease was lost")
	// ErrUnsupported says that an operation has no meaning for the limit's algorithm.
	ErrUnsupported = errors.New("sluice: not supported by the limit's algorithm")
	// ErrUnknownOutcome says that a store cannot tell whether a request was charged.
	ErrUnknownOutcome = errors.New("sluice: the outcome is unknown")
	// ErrClosed says that the store is closed.
	ErrClosed = errors.New("sluice: the store is closed")
)

// RateError reports a text that is no rate.
type RateError struct {
	Text    string
	Problem string
}

func (e *RateError) Error() string {
	return fmt.Sprintf("sluice: rate %q %s; write it as in 100/m, 5/s or 10/30s", e.Text, e.Problem)
}

// LimitError reports numbers that make no limit.
type LimitError struct {
	// Limit is the name of the limit, empty for an unnamed one.
	Limit string
	// Field is the number at fault, such as "Rate".
	Field string
	// Problem says what is wrong.
	Problem string
	// Remedy says what would be right. It may be empty.
	Remedy string
	// Nearest is the accepted rate nearest to a refused one, or the zero Rate. The remedy names it.
	Nearest Rate
}

func (e *LimitError) Error() string {
	name := "limit"
	if e.Limit != "" {
		name = fmt.Sprintf("limit %q", e.Limit)
	}
	return fmt.Sprintf("sluice: %s: %s %s", name, e.Field, withRemedy(e.Problem, e.Remedy))
}

// accept adds the nearest rate that is accepted.
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

// RequestError reports a request that no store can decide.
type RequestError struct {
	// Limit is the name of the request's limit.
	Limit string
	// Problem says what is wrong.
	Problem string
}

func (e *RequestError) Error() string {
	return fmt.Sprintf("sluice: request to limit %q: %s", e.Limit, e.Problem)
}

// DenialError is the error of a batch that a store could decide in part, as when one of several
// servers does not answer, if some of its requests are denied: with them the batch is, whatever
// the others would have come to. Who stands in for the store keeps to that.
type DenialError struct {
	// Denied holds the denials by their places in the batch, those of shadows left out.
	Denied map[int]Decision
	// Err says why the others were not decided.
	Err error
}

func (e *DenialError) Error() string {
	return fmt.Sprintf("sluice: denied (%d of a batch), and the others were not decided: %v", len(e.Denied), e.Err)
}

// Unwrap returns the reason.
func (e *DenialError) Unwrap() error { return e.Err }
