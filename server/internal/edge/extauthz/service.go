package extauthz

import (
	"context"
	"errors"
	"time"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Service is Envoy's external authorization. It is safe for concurrent use.
type Service struct {
	authpb.UnimplementedAuthorizationServer
	decider *gateway.Decider
}

var _ authpb.AuthorizationServer = (*Service)(nil)

// margin is how long before the deadline of a call its answer should be ready, because it needs time to arrive. It is
// at most a quarter of the time that the call has.
const margin = 5 * time.Millisecond

// New returns a service.
func New(d *gateway.Decider) *Service { return &Service{decider: d} }

// Desc describes the service to a gRPC server.
func (s *Service) Desc() *grpc.ServiceDesc { return &authpb.Authorization_ServiceDesc }

// Check decides about a request. It waits for the delays of rules, as far as the deadline of the call allows.
func (s *Service) Check(ctx context.Context, q *authpb.CheckRequest) (*authpb.CheckResponse, error) {
	report, reason := s.report(q.GetAttributes())
	if reason != "" {
		s.decider.Unusable(reason)
		return nil, status.Error(codes.InvalidArgument, "extauthz: "+reason)
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-min(margin, time.Until(deadline)/4)))
		defer cancel()
	}
	r, v, denied := s.decider.Admit(ctx, report, nil)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, status.Error(codes.Canceled, "the gateway is gone")
	}
	switch {
	case denied:
		return s.deny(v), nil
	case v.Degrade != nil && v.Degrade.WhenLimited.Answers():
		return s.degrade(r, v), nil
	default:
		return s.pass(r, v), nil
	}
}
