package extauthz

import (
	"context"
	"errors"
	"time"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Options configure a Service. All functions must be safe for concurrent use.
type Options struct {
	// Decider decides about requests. Required.
	Decider *httplimit.Decider
	// Gate carries out delays. It must have the decider's store. Required.
	Gate *gate.Gate
	// Headers set the rate-limit headers of answers. Default: the IETF's.
	Headers *httplimit.Headers
	// MethodOverride accepts requests with headers that replace their method: see httplimit.Report.
	MethodOverride bool
	// OnVerdict is called once for each request, with the final verdict and the time that the decision took. It
	// must not keep or change the verdict. Optional.
	OnVerdict func(v *policy.Verdict, took time.Duration)
	// OnError gets the store's errors. Optional.
	OnError func(error)
	// AnswerFailed is called with the reason why the answer of a rule cannot be sent, nil for none. Optional.
	AnswerFailed func(error)
	// Unusable is called with the reason why a call got no decision. Many calls can have the same reason. Optional.
	Unusable func(reason string)
	// Margin is how long before the deadline of a call its answer should be ready. It is at most a quarter of the time
	// that the call has. Default: 5 ms.
	Margin time.Duration
}

// Service is Envoy's external authorization. It is safe for concurrent use.
type Service struct {
	authpb.UnimplementedAuthorizationServer
	o Options
}

var _ authpb.AuthorizationServer = (*Service)(nil)

// defaultMargin is the time that an answer needs to arrive.
const defaultMargin = 5 * time.Millisecond

// New returns a service.
func New(o Options) (*Service, error) {
	if o.Decider == nil || o.Gate == nil {
		return nil, errors.New("extauthz: Decider and Gate are required")
	}
	if o.Headers == nil {
		h, err := httplimit.NewHeaders(httplimit.HeaderOptions{})
		if err != nil {
			return nil, err
		}
		o.Headers = h
	}
	if o.OnVerdict == nil {
		o.OnVerdict = func(*policy.Verdict, time.Duration) {}
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	if o.AnswerFailed == nil {
		o.AnswerFailed = func(error) {}
	}
	if o.Unusable == nil {
		o.Unusable = func(string) {}
	}
	if o.Margin == 0 {
		o.Margin = defaultMargin
	}
	return &Service{o: o}, nil
}

// Desc describes the service to a gRPC server.
func (s *Service) Desc() *grpc.ServiceDesc { return &authpb.Authorization_ServiceDesc }

// Check decides about a request. It waits for the delays of rules, as far as the deadline of the call allows.
func (s *Service) Check(ctx context.Context, q *authpb.CheckRequest) (*authpb.CheckResponse, error) {
	report, reason := s.report(q.GetAttributes())
	if reason != "" {
		s.o.Unusable(reason)
		return nil, status.Error(codes.InvalidArgument, "extauthz: "+reason)
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-min(s.o.Margin, time.Until(deadline)/4)))
		defer cancel()
	}
	began := time.Now()
	r, v := s.o.Decider.DecideReport(ctx, report)
	took := time.Since(began)
	denied := v.Refused != nil
	if !denied {
		admission, err := s.o.Gate.Enter(ctx, &v)
		denied = err != nil
		admission.Leave(ctx, httplimit.UnseenOutcome(r))
	}
	s.o.OnVerdict(&v, took)
	if v.Err != nil && !v.Abandoned() {
		s.o.OnError(v.Err)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, status.Error(codes.Canceled, "the gateway is gone")
	}
	switch {
	case denied:
		return s.deny(r, &v), nil
	case v.Degrade != nil && v.Degrade.WhenLimited.Answers():
		return s.degrade(r, &v), nil
	default:
		return s.pass(r, &v), nil
	}
}
