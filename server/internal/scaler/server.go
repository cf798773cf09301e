package scaler

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/sluicehq/sluice/server/internal/scaler/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
)

// Options are what a Server is made from.
type Options struct {
	// Pressure tells the pressure on a rule, and whether there is such a rule. It must be safe for
	// concurrent use. Required.
	Pressure func(rule string) (pressure float64, known bool)
	// TLS is for clients that speak it; nil for plain text.
	TLS *tls.Config
	// Every is how often streams look for changes. Default: 1 second.
	Every time.Duration
}

// Server is an external scaler. It is safe for concurrent use.
type Server struct {
	grpc   *grpc.Server
	health *health.Server
	scaler *scaler
	stop   func()
}

// New returns a Server; it answers from Serve on.
func New(o Options) (*Server, error) {
	if o.Pressure == nil {
		return nil, errNoPressure
	}
	if o.Every <= 0 {
		o.Every = time.Second
	}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(64 << 10), grpc.MaxHeaderListSize(16 << 10), grpc.MaxConcurrentStreams(250), grpc.ConnectionTimeout(10 * time.Second),
		// A stream says nothing for long, and would keep a client that is gone.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	}
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	stopped := make(chan struct{})
	s := &Server{
		grpc:   grpc.NewServer(options...),
		health: health.NewServer(),
		scaler: &scaler{pressure: o.Pressure, every: o.Every, stopped: stopped},
		stop:   sync.OnceFunc(func() { close(stopped) }),
	}
	externalscaler.RegisterExternalScalerServer(s.grpc, s.scaler)
	s.health.SetServingStatus(externalscaler.ExternalScaler_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s, nil
}

// Serve answers on ln until Shutdown or Close; the error is nil then. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.grpc.Serve(ln); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Drain says on the health service that the server is about to stop, and ends the streams.
func (s *Server) Drain() {
	s.health.Shutdown()
	s.stop()
}

// Shutdown drains, and returns when all calls have ended. With the end of ctx, it
// cuts them off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	ended := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-ended
		return ctx.Err()
	}
}

// Close cuts off whoever is connected.
func (s *Server) Close() {
	s.Drain()
	s.grpc.Stop()
}
