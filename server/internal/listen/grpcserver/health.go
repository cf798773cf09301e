package grpcserver

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
)

// health is grpc.health.v1. All services have the health of the server, whose name is "".
type health struct {
	healthpb.UnimplementedHealthServer
	ready    func() error
	poll     time.Duration
	names    map[string]bool
	draining chan struct{} // closed by drain
	once     sync.Once
}

func newHealth(o *Options) *health {
	h := &health{ready: o.Ready, poll: o.Poll, names: map[string]bool{"": true}, draining: make(chan struct{})}
	for _, s := range o.Services {
		h.names[s.Desc.ServiceName] = true
	}
	return h
}

// register adds the health and the reflection of the server.
func (s *Server) register() {
	healthpb.RegisterHealthServer(s.grpc, s.health)
	o := reflection.ServerOptions{Services: s.grpc, DescriptorResolver: s.o.Descriptors}
	reflectionv1.RegisterServerReflectionServer(s.grpc, reflection.NewServerV1(o))
	reflectionv1alpha.RegisterServerReflectionServer(s.grpc, reflection.NewServer(o))
}

// drain sets the health of all services to NOT_SERVING, and ends each watch when it has reported that.
func (h *health) drain() { h.once.Do(func() { close(h.draining) }) }

// status returns the health of a service.
func (h *health) status(name string) healthpb.HealthCheckResponse_ServingStatus {
	if !h.names[name] {
		return healthpb.HealthCheckResponse_SERVICE_UNKNOWN
	}
	select {
	case <-h.draining:
		return healthpb.HealthCheckResponse_NOT_SERVING
	default:
	}
	if h.ready() != nil {
		return healthpb.HealthCheckResponse_NOT_SERVING
	}
	return healthpb.HealthCheckResponse_SERVING
}

// Check returns the health of a service.
func (h *health) Check(_ context.Context, q *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	s := h.status(q.GetService())
	if s == healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &healthpb.HealthCheckResponse{Status: s}, nil
}

// List returns the health of all services.
func (h *health) List(context.Context, *healthpb.HealthListRequest) (*healthpb.HealthListResponse, error) {
	all := &healthpb.HealthListResponse{Statuses: map[string]*healthpb.HealthCheckResponse{}}
	for _, name := range slices.Collect(maps.Keys(h.names)) {
		all.Statuses[name] = &healthpb.HealthCheckResponse{Status: h.status(name)}
	}
	return all, nil
}

// Watch sends the health of a service, and each change of it.
func (h *health) Watch(q *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	tick := time.NewTicker(h.poll)
	defer tick.Stop()
	last := healthpb.HealthCheckResponse_UNKNOWN
	for draining := false; ; {
		if now := h.status(q.GetService()); now != last {
			if last = now; stream.Send(&healthpb.HealthCheckResponse{Status: now}) != nil {
				return status.Error(codes.Canceled, "the stream has ended")
			}
		}
		if draining {
			return status.Error(codes.Unavailable, "the server ends")
		}
		select {
		case <-tick.C:
		case <-h.draining:
			draining = true
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}
