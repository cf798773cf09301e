package grpcserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protodesc"
)

// Options configure a Server.
type Options struct {
	// Services are the services of the server, besides health checks and reflection. Required.
	Services []Service
	// Descriptors find the descriptors of the services, for reflection. Default: all descriptors of the program.
	Descriptors protodesc.Resolver
	// TLS is the certificate, and the authorities of client certificates. Nil for a server without TLS.
	TLS *tls.Config
	// Verify reports whether a token is valid, and whether it may decide. Callers send it in the metadata, as
	// authorization: Bearer TOKEN. Health checks need none. Nil for a server that needs no token.
	Verify func(token string) (known, decides bool)
	// Ready returns why the server should get no calls, nil if it should. Default: it always should.
	Ready func() error
	// MaxMessage bounds a request, in bytes. Default: 1 MiB.
	MaxMessage int
	// MaxHeader bounds the metadata of a request, in bytes. Default: 64 KiB.
	MaxHeader uint32
	// MaxStreams bounds the calls of a connection that are under way. Default: 1,000.
	MaxStreams uint32
	// HandshakeTimeout is how long a connection may take to open. Default: 10 s.
	HandshakeTimeout time.Duration
	// CallTimeout ends calls that take longer, except Watch of the health. Default: 30 s.
	CallTimeout time.Duration
	// IdleTimeout is how long a connection may be without calls. Default: 2 min.
	IdleTimeout time.Duration
	// Poll is how often a watched health is read. Default: 1 s.
	Poll time.Duration
	// Logger is for panics of services. Default: slog.Default().
	Logger *slog.Logger
}

// Service is a gRPC service.
type Service struct {
	Desc *grpc.ServiceDesc
	// Impl is what the handlers of Desc get.
	Impl any
}

// Server answers gRPC calls on one listener. Make it with New. Serve runs until Shutdown or Close.
type Server struct {
	o      Options
	grpc   *grpc.Server
	health *health

	handshakeFailed func(error) // nil to report nothing
}

// Connections of gateways live long. The server finds out within pingAfter and pingTimeout that a peer is gone.
const (
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second
	// leastPing is the shortest time between pings of a client. Gateways often send one every ten seconds.
	leastPing = 5 * time.Second
	// workers is the number of goroutines that serve calls and keep their grown stacks. Further calls get new
	// goroutines, which cost a tenth more. The number is high because many calls wait for a store. An idle worker takes
	// 8 KiB.
	workers = 256
)

// New returns a server.
func New(o Options) (*Server, error) {
	if len(o.Services) == 0 {
		return nil, errors.New("grpcserver: Options.Services is empty; give one or more")
	}
	o.complete()
	s := &Server{o: o, health: newHealth(&o)}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.InTapHandle(s.admit),
		grpc.ChainUnaryInterceptor(s.recoverUnary),
		grpc.ChainStreamInterceptor(s.recoverStream),
		grpc.MaxRecvMsgSize(o.MaxMessage),
		grpc.MaxHeaderListSize(o.MaxHeader),
		grpc.MaxConcurrentStreams(o.MaxStreams),
		grpc.ConnectionTimeout(o.HandshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: o.IdleTimeout, Time: pingAfter, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(workers),
	}
	if o.TLS != nil {
		options = append(options, grpc.Creds(&reportingCredentials{credentials.NewTLS(o.TLS), s}))
	}
	s.grpc = grpc.NewServer(options...)
	for _, service := range o.Services {
		s.grpc.RegisterService(service.Desc, service.Impl)
	}
	s.register()
	return s, nil
}

// complete fills in the defaults.
func (o *Options) complete() {
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = 1 << 20
	}
	if o.MaxHeader == 0 {
		o.MaxHeader = 64 << 10
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = 1000
	}
	if o.HandshakeTimeout == 0 {
		o.HandshakeTimeout = 10 * time.Second
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = 30 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 2 * time.Minute
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// Serve answers until Shutdown or Close, or until the listener fails.
func (s *Server) Serve(ln net.Listener) error { return s.grpc.Serve(ln) }

// Drain reports to health checks that the server is not serving. It does not wait.
func (s *Server) Drain() { s.health.drain() }

// Shutdown requests that clients leave, and returns when all calls or the context have ended. It refuses new
// connections, and lets calls in flight finish.
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
		return ctx.Err() // Close then ends the other goroutine too
	}
}

// Close cuts off all connections.
func (s *Server) Close() error {
	s.Drain()
	s.grpc.Stop()
	return nil
}

// recoverUnary turns a panic of a service into an error of its call.
func (s *Server) recoverUnary(ctx context.Context, q any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	defer s.recover(info.FullMethod, &err)
	return handle(ctx, q)
}

// recoverStream is recoverUnary for streams.
func (s *Server) recoverStream(impl any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer s.recover(info.FullMethod, &err)
	return handle(impl, stream)
}

func (s *Server) recover(method string, err *error) {
	if p := recover(); p != nil {
		s.o.Logger.Error("a gRPC call panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "the server failed; its log has the reason")
	}
}
