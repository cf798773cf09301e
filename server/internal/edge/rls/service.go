package rls

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Options configure a Service.
type Options struct {
	// Decider decides about all descriptors of a call as one. Required.
	Decider *policy.Decider
	// OnVerdict is called once for each verdict, with the time that the decision took. It must not keep or change
	// the verdict. Optional.
	OnVerdict func(v *policy.Verdict, took time.Duration)
	// OnDescriptors is called once for each verdict, with the descriptors of the call. It must not keep or change them.
	// Optional.
	OnDescriptors func(q []descriptors.Request, v *policy.DescriptorVerdict)
	// OnError is called with errors that fail no call. Optional.
	OnError func(error)
	// Headers set the rate-limit headers of answers. Default: the IETF's.
	Headers *httplimit.Headers
	// RequestHeaders returns the headers by which a verdict marks or degrades requests, nil for none. Default: none.
	RequestHeaders func(v *policy.Verdict) http.Header
	// Margin is how long before the deadline of a call the store must have decided, so that on_store_error can answer
	// in time. It is at most a quarter of the time that the call has. Default: 0, which suits a store that does not
	// wait.
	Margin time.Duration
	// MaxMessage bounds the body of a request over HTTP, in bytes. Default: 1 MiB.
	MaxMessage int64
}

// Service is Envoy's rate limit service. It is safe for concurrent use.
type Service struct {
	o      Options
	calls  sync.Pool // *call
	unary  grpc.UnaryHandler
	info   grpc.UnaryServerInfo
	schema *schema
}

// New returns a service.
func New(o Options) (*Service, error) {
	if o.Decider == nil {
		return nil, errors.New("rls: Options.Decider is missing; give a policy.Decider")
	}
	if o.OnVerdict == nil {
		o.OnVerdict = func(*policy.Verdict, time.Duration) {}
	}
	if o.OnDescriptors == nil {
		o.OnDescriptors = func([]descriptors.Request, *policy.DescriptorVerdict) {}
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	if o.RequestHeaders == nil {
		o.RequestHeaders = func(*policy.Verdict) http.Header { return nil }
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = 1 << 20
	}
	if o.Headers == nil {
		h, err := httplimit.NewHeaders(httplimit.HeaderOptions{})
		if err != nil {
			return nil, err
		}
		o.Headers = h
	}
	s := &Service{o: o}
	var err error
	if s.schema, err = newSchema(); err != nil {
		return nil, fmt.Errorf("rls: %w", err)
	}
	s.calls.New = func() any { return &call{service: s, header: http.Header{}} }
	s.unary = func(ctx context.Context, q any) (any, error) { return s.answer(ctx, q.(*call)) }
	s.info = grpc.UnaryServerInfo{Server: s, FullMethod: ratelimitpb.RateLimitService_ShouldRateLimit_FullMethodName}
	return s, nil
}

// Desc describes the service to a gRPC server. The server's codec must use the UnmarshalWire and AppendWire of messages.
func (s *Service) Desc() *grpc.ServiceDesc {
	d := ratelimitpb.RateLimitService_ServiceDesc
	d.HandlerType = (*any)(nil)
	d.Methods = []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}}
	return &d
}

// shouldRateLimit answers a call over gRPC.
func shouldRateLimit(impl any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC gives the order
	s := impl.(*Service)
	c := s.calls.Get().(*call)
	if err := decode(c); err != nil {
		c.free()
		return nil, err
	}
	if interceptor == nil {
		return s.answer(ctx, c)
	}
	return interceptor(ctx, c, &s.info, s.unary)
}

// answer decides about a call. The call is its own answer.
func (s *Service) answer(ctx context.Context, c *call) (*call, error) {
	if err := s.decide(ctx, c); err != nil {
		c.free()
		return nil, err
	}
	return c, nil
}

// decide decides about a call, and writes its answer.
func (s *Service) decide(ctx context.Context, c *call) error {
	if err := c.check(); err != nil {
		return err
	}
	if s.o.Margin > 0 {
		if deadline, ok := ctx.Deadline(); ok {
			e := &early{Context: ctx, deadline: deadline.Add(-min(s.o.Margin, time.Until(deadline)/4))}
			defer e.end()
			ctx = e
		}
	}
	began := time.Now()
	v := s.o.Decider.DecideDescriptors(ctx, c.domain, c.descriptors)
	s.o.OnVerdict(&v.Verdict, time.Since(began))
	s.o.OnDescriptors(c.descriptors, &v)
	if v.Refused != nil {
		return status.Error(codes.InvalidArgument, v.Refused.Error())
	}
	c.respond(&v)
	return nil
}
