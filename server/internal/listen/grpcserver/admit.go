package grpcserver

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// The errors of refused calls.
var (
	errForeign = status.Error(codes.PermissionDenied, "a web page may not make this call")
	errNoToken = status.Error(codes.Unauthenticated, "this call needs the API token: send it in the metadata, as authorization: Bearer TOKEN")
	errToken   = status.Error(codes.Unauthenticated, "the token is not the API token")
	errScope   = status.Error(codes.PermissionDenied, "the token lacks the scope decide; send the token of the API, or the admin token")
)

const (
	healthService = "/grpc.health.v1.Health/"
	watchMethod   = healthpb.Health_Watch_FullMethodName
)

// admit refuses calls before the server reads their messages, and bounds the time of admitted calls. The server runs it
// for each call, in the goroutine of the connection.
func (s *Server) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	if len(info.Header["origin"]) > 0 {
		return ctx, errForeign
	}
	if s.o.Verify != nil && !strings.HasPrefix(info.FullMethodName, healthService) {
		if err := s.authorize(info.Header); err != nil {
			return ctx, err
		}
	}
	if info.FullMethodName == watchMethod {
		return ctx, nil
	}
	// A caller that sends no message, or reads no answer, does not keep a stream.
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= s.o.CallTimeout {
		return ctx, nil
	}
	bounded, cancel := context.WithTimeout(ctx, s.o.CallTimeout)
	_ = cancel // the end of the call cancels its context, and so this one
	return bounded, nil
}

// authorize checks the token of a call.
func (s *Server) authorize(md metadata.MD) error {
	values := md["authorization"]
	if len(values) != 1 {
		return errNoToken // several values would let others see another token than this server
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return errNoToken
	}
	switch known, decides := s.o.Verify(strings.TrimSpace(token)); {
	case !known:
		return errToken
	case !decides:
		return errScope
	}
	return nil
}
