package scaler

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/server/internal/scaler/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxStreams is how many may be told of changes at once.
const maxStreams = 1024

// scaler answers KEDA's calls.
type scaler struct {
	externalscaler.UnimplementedExternalScalerServer
	pressure func(rule string) (pressure float64, known bool)
	every    time.Duration
	streams  atomic.Int64
	stopped  chan struct{}
}

var _ externalscaler.ExternalScalerServer = (*scaler)(nil)

// read returns what a ScaledObject asks for, and the pressure that there is.
func (s *scaler) read(ref *externalscaler.ScaledObjectRef) (target, float64, error) {
	t, err := targetOf(ref)
	if err != nil {
		return t, 0, status.Error(codes.InvalidArgument, err.Error())
	}
	pressure, known := s.pressure(t.rule)
	if !known {
		return t, 0, status.Errorf(codes.NotFound, "scaler: there is no rule %.64q; give the name of one in the configuration", t.rule)
	}
	return t, pressure, nil
}

// IsActive tells whether the pressure is above the trigger's activation.
func (s *scaler) IsActive(_ context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.IsActiveResponse, error) {
	t, pressure, err := s.read(ref)
	if err != nil {
		return nil, err
	}
	return &externalscaler.IsActiveResponse{Result: pressure > t.activation}, nil
}

// StreamIsActive tells it at once and at every change, until the client leaves, the
// rule is gone or the server drains.
func (s *scaler) StreamIsActive(ref *externalscaler.ScaledObjectRef, stream grpc.ServerStreamingServer[externalscaler.IsActiveResponse]) error {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return status.Errorf(codes.ResourceExhausted, "scaler: there are %d streams already; close some", maxStreams)
	}
	defer s.streams.Add(-1)
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for told, was := false, false; ; {
		t, pressure, err := s.read(ref)
		if err != nil {
			return err
		}
		if is := pressure > t.activation; !told || is != was {
			if err := stream.Send(&externalscaler.IsActiveResponse{Result: is}); err != nil {
				return err
			}
			told, was = true, is
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.stopped:
			return nil
		}
	}
}

// GetMetricSpec names the metric, and the pressure to have at most by one replica.
func (s *scaler) GetMetricSpec(_ context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.GetMetricSpecResponse, error) {
	t, _, err := s.read(ref)
	if err != nil {
		return nil, err
	}
	return &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{t.spec()}}, nil
}

// GetMetrics returns the pressure.
func (s *scaler) GetMetrics(_ context.Context, q *externalscaler.GetMetricsRequest) (*externalscaler.GetMetricsResponse, error) {
	t, pressure, err := s.read(q.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	if name := q.GetMetricName(); name != t.metric() {
		return nil, status.Errorf(codes.NotFound, "scaler: there is no metric %.128q; that of the rule is %q", name, t.metric())
	}
	return &externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{t.value(pressure)}}, nil
}

// errNoPressure says that Options lack what is told.
var errNoPressure = errors.New("scaler: Options.Pressure is nil; give what knows the pressure of rules")
