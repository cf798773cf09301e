package grpclimit

import (
	"errors"
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/policy"
)

// statusOf maps the codes of gRPC to HTTP, as google/rpc/code.proto does. Rules name results of calls by
// these statuses.
var statusOf = [...]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           499,
	codes.Unknown:            http.StatusInternalServerError,
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.Aborted:            http.StatusConflict,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Internal:           http.StatusInternalServerError,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DataLoss:           http.StatusInternalServerError,
	codes.Unauthenticated:    http.StatusUnauthorized,
}

// codeOf maps statuses of denials to codes.
var codeOf = map[int]codes.Code{
	http.StatusBadRequest:          codes.InvalidArgument,
	http.StatusUnauthorized:        codes.Unauthenticated,
	http.StatusForbidden:           codes.PermissionDenied,
	http.StatusNotFound:            codes.NotFound,
	http.StatusConflict:            codes.Aborted,
	http.StatusTooManyRequests:     codes.ResourceExhausted,
	http.StatusInternalServerError: codes.Internal,
	http.StatusNotImplemented:      codes.Unimplemented,
	http.StatusServiceUnavailable:  codes.Unavailable,
	http.StatusGatewayTimeout:      codes.DeadlineExceeded,
}

// hasCode reports whether a code fits a status.
func hasCode(status int) bool { return codeOf[status] != codes.OK }

// httpStatus returns the status of HTTP that fits a code.
func httpStatus(c codes.Code) int {
	if int(c) < len(statusOf) {
		return statusOf[c]
	}
	return http.StatusInternalServerError
}

// Code returns the code that fits a denial: RESOURCE_EXHAUSTED if the client exceeds a limit. It is
// INVALID_ARGUMENT if the call lacks a part of the key, or has it several times, and PERMISSION_DENIED
// if no rule lets the call pass, or a list denies it. It is UNAVAILABLE if the limiter cannot decide or
// has no room. If the rule has a status of HTTP, it is the code that fits the status.
func Code(v *policy.Verdict) codes.Code {
	if errors.Is(v.Refused, sluice.ErrDeadline) && (v.Rule == nil || v.Rule.WhenLimited.Status == 0) {
		return codes.ResourceExhausted // the deadline of the call is too near
	}
	if c := codeOf[denial.Status(v)]; c != codes.OK {
		return c
	}
	return codes.ResourceExhausted
}
