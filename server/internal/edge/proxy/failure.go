package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"

	"github.com/sluicehq/sluice/server/internal/edge/proxy/upstream"
)

// Failure is the reason why a request got no answer from the
// upstream.
type Failure uint8

// The failures.
const (
	// Unreachable: no connection to the upstream could be made.
	Unreachable Failure = iota
	// Broken: the connection ended, or its content was not HTTP.
	Broken
	// ConnectTimeout: no connection was free or made in time.
	ConnectTimeout
	// AnswerTimeout: the upstream did not begin to answer in time.
	AnswerTimeout
	// BodyStalled: the client stopped sending the request's body.
	BodyStalled
	// BodyTooLarge: the request's body is larger than
	// Options.MaxBody.
	BodyTooLarge
	// Malformed: the request, or its body, is not HTTP.
	Malformed
	// ClientGone: the client went away before there was an answer.
	ClientGone
)

// Failures are all failures, for metrics.
var Failures = []Failure{Unreachable, Broken, ConnectTimeout, AnswerTimeout, BodyStalled, BodyTooLarge, Malformed, ClientGone}

var failures = [...]struct {
	name   string
	status int
	detail string
}{
	Unreachable:    {"unreachable", http.StatusBadGateway, "The service behind this proxy cannot be reached."},
	Broken:         {"broken", http.StatusBadGateway, "The service behind this proxy broke off before it answered."},
	ConnectTimeout: {"connect-timeout", http.StatusGatewayTimeout, "No connection to the service behind this proxy was free or made in time."},
	AnswerTimeout:  {"answer-timeout", http.StatusGatewayTimeout, "The service behind this proxy did not answer in time."},
	BodyStalled:    {"body-stalled", http.StatusRequestTimeout, "The body of the request stopped arriving, or came too slowly."},
	BodyTooLarge:   {"body-too-large", http.StatusRequestEntityTooLarge, "The body of the request is larger than this proxy accepts."},
	Malformed:      {"malformed", http.StatusBadRequest, "The request is malformed."},
	ClientGone:     {"client-gone", 0, ""},
}

// String returns the failure in a word.
func (f Failure) String() string { return failures[f].name }

// Status returns the status of the answer to the client; 0 for
// ClientGone.
func (f Failure) Status() int { return failures[f].status }

// Client reports whether the failure is the client's, not the upstream's.
func (f Failure) Client() bool { return f >= BodyStalled }

func (f Failure) detail() string { return failures[f].detail }

// Errors with which this package ends a request itself.
var (
	errBodyStalled = errors.New("proxy: the client stopped sending the body, or sends it too slowly")
	errMalformed   = errors.New("proxy: the request is malformed")
)

// failureOf returns the kind of an error of the transport.
func failureOf(ctx context.Context, err error) Failure {
	var tooLarge *http.MaxBytesError
	var operation *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, &tooLarge):
		return BodyTooLarge
	case errors.Is(err, errBodyStalled), stalled(ctx):
		return BodyStalled
	case errors.Is(err, errMalformed):
		return Malformed
	case errors.Is(err, upstream.ErrConnectTimeout):
		return ConnectTimeout
	case errors.Is(err, errTooManyInterim), errors.Is(context.Cause(ctx), errTooManyInterim):
		return Broken
	case ctx.Err() != nil:
		return ClientGone
	case bodyOf(ctx).broke():
		return ClientGone
	case bodyOf(ctx).isMalformed():
		return Malformed
	case errors.As(err, &operation) && operation.Op == "dial":
		if operation.Timeout() {
			return ConnectTimeout
		}
		return Unreachable
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return AnswerTimeout
	default:
		return Broken
	}
}

// isPrintable reports whether all values consist of printable ASCII characters.
func isPrintable(values []string) bool {
	for _, v := range values {
		for i := range len(v) {
			if v[i] < ' ' || v[i] > '~' {
				return false
			}
		}
	}
	return true
}
