package grpcserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	echoService = "test.Echo"
	sayMethod   = "/test.Echo/Say"
	patience    = 10 * time.Second
)

// echo is a service that answers with what it gets. Some texts make it do other things.
type echo struct {
	entered chan struct{} // gets a value for each "wait"
	resume  chan struct{} // ends each "wait"
}

// desc describes the service of echo.
func desc() *grpc.ServiceDesc {
	say := func(impl any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		q := &wrapperspb.StringValue{}
		if err := decode(q); err != nil {
			return nil, err
		}
		return interceptor(ctx, q, &grpc.UnaryServerInfo{Server: impl, FullMethod: sayMethod}, func(ctx context.Context, q any) (any, error) {
			return impl.(*echo).say(ctx, q.(*wrapperspb.StringValue))
		})
	}
	return &grpc.ServiceDesc{ServiceName: echoService, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: say}}}
}

func (e *echo) say(ctx context.Context, q *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	switch q.GetValue() {
	case "panic":
		panic("secret")
	case "wait":
		select {
		case e.entered <- struct{}{}:
		default:
		}
		select {
		case <-e.resume:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return q, nil
}

// world is a running server and a client.
type world struct {
	*Server
	t      *testing.T
	echo   *echo
	at     string
	conn   *grpc.ClientConn
	served chan error
}

func start(t *testing.T, o Options, client ...grpc.DialOption) *world {
	t.Helper()
	w := &world{t: t, echo: &echo{entered: make(chan struct{}, 100), resume: make(chan struct{})}, served: make(chan error, 1)}
	o.Services = []Service{{Desc: desc(), Impl: w.echo}}
	o.Logger = slog.New(slog.DiscardHandler)
	var err error
	if w.Server, err = New(o); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.at = ln.Addr().String()
	go func() { w.served <- w.Serve(ln) }()
	if len(client) == 0 {
		client = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	w.conn = w.dial(client...)
	t.Cleanup(func() {
		_ = w.Close()
		if err := <-w.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return w
}

func (w *world) dial(o ...grpc.DialOption) *grpc.ClientConn {
	w.t.Helper()
	conn, err := grpc.NewClient(w.at, o...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// say calls the service, with metadata in pairs.
func (w *world) say(text string, md ...string) error {
	w.t.Helper()
	return sayOver(w.t.Context(), w.conn, text, md...)
}

func sayOver(ctx context.Context, conn *grpc.ClientConn, text string, md ...string) error {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, md...), patience)
	defer cancel()
	var answer wrapperspb.StringValue
	if err := conn.Invoke(ctx, sayMethod, wrapperspb.String(text), &answer); err != nil {
		return err
	}
	if answer.GetValue() != text {
		return errors.New("another answer: " + answer.GetValue())
	}
	return nil
}

func (w *world) wants(err error, code codes.Code, what string) {
	w.t.Helper()
	if got := status.Code(err); got != code {
		w.t.Errorf("%s: %v; want %v", what, err, code)
	}
}

// TestCallsNeedOneOfTheTokens checks who gets an answer of a server that needs a token.
func TestCallsNeedOneOfTheTokens(t *testing.T) {
	w := start(t, Options{Verify: func(token string) (known, decides bool) { return token == "right", token == "right" }})
	for _, x := range []struct {
		name string
		md   []string
		want codes.Code
	}{
		{"right", []string{"authorization", "Bearer right"}, codes.OK},
		{"another case of the scheme", []string{"authorization", "bearer right"}, codes.OK},
		{"none", nil, codes.Unauthenticated},
		{"wrong", []string{"authorization", "Bearer wrong"}, codes.Unauthenticated},
		{"another scheme", []string{"authorization", "Basic right"}, codes.Unauthenticated},
		{"two", []string{"authorization", "Bearer wrong", "authorization", "Bearer right"}, codes.Unauthenticated},
		{"two right ones", []string{"authorization", "Bearer right", "authorization", "Bearer right"}, codes.Unauthenticated},
		{"of a page", []string{"authorization", "Bearer right", "origin", "https://example.com"}, codes.PermissionDenied},
	} {
		w.wants(w.say("a", x.md...), x.want, x.name)
	}
	health := healthpb.NewHealthClient(w.conn)
	if _, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	reflection, err := reflectionpb.NewServerReflectionClient(w.conn).ServerReflectionInfo(t.Context())
	if err == nil {
		_, err = reflection.Recv()
	}
	w.wants(err, codes.Unauthenticated, "reflection")
}

// TestACallHoldsABoundedAmount checks what one call can make the server hold.
func TestACallHoldsABoundedAmount(t *testing.T) {
	w := start(t, Options{MaxMessage: 1000, MaxHeader: 4 << 10, CallTimeout: 500 * time.Millisecond})
	w.wants(w.say(strings.Repeat("a", 900)), codes.OK, "a message within the bound")
	w.wants(w.say(strings.Repeat("a", 1001)), codes.ResourceExhausted, "a message beyond the bound")
	if err := w.say("a", "x-long", strings.Repeat("a", 8<<10)); err == nil {
		t.Error("a header beyond the bound was accepted")
	}
	w.wants(w.say("wait"), codes.DeadlineExceeded, "a call that takes too long")
	w.wants(w.say("panic"), codes.Internal, "a call that panics")
	if err := w.say("panic"); strings.Contains(err.Error(), "secret") {
		t.Errorf("the client sees what the panic was: %v", err)
	}
	w.wants(w.say("a"), codes.OK, "the next call")

	// A caller that never sends its message does not keep its stream.
	stream, err := w.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, sayMethod)
	if err != nil {
		t.Fatal(err)
	}
	w.wants(stream.RecvMsg(&wrapperspb.StringValue{}), codes.DeadlineExceeded, "a call without a message")
}

// TestHealthFollowsTheServices checks the health of the server and of each service, while it changes.
func TestHealthFollowsTheServices(t *testing.T) {
	var down atomic.Bool
	w := start(t, Options{Poll: time.Millisecond, Ready: func() error {
		if down.Load() {
			return errors.New("no store")
		}
		return nil
	}})
	health := healthpb.NewHealthClient(w.conn)
	check := func(name string) string {
		v, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil {
			return status.Code(err).String()
		}
		return v.GetStatus().String()
	}
	watch, err := health.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: echoService})
	if err != nil {
		t.Fatal(err)
	}
	next := func() string {
		v, err := watch.Recv()
		if err != nil {
			return status.Code(err).String()
		}
		return v.GetStatus().String()
	}
	unknown, err := health.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := unknown.Recv(); err != nil || v.GetStatus() != healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		t.Errorf("an unknown service: %v, %v", v, err)
	}
	for _, x := range []struct{ what, got, want string }{
		{"watch", next(), "SERVING"}, {"server", check(""), "SERVING"}, {"service", check(echoService), "SERVING"}, {"unknown", check("other"), "NotFound"},
	} {
		if x.got != x.want {
			t.Errorf("%s: %s; want %s", x.what, x.got, x.want)
		}
	}
	if all, err := health.List(t.Context(), &healthpb.HealthListRequest{}); err != nil || len(all.GetStatuses()) != 2 {
		t.Errorf("want the health of the server and of one service, got %v, %v", all, err)
	}
	down.Store(true)
	if got := next() + " " + check(""); got != "NOT_SERVING NOT_SERVING" {
		t.Errorf("when the server is down, its health is %s", got)
	}
	down.Store(false)
	if got := next(); got != "SERVING" {
		t.Errorf("when the server is up again, its health is %s", got)
	}
	w.Drain()
	if got := next() + " " + next() + " " + check(""); got != "NOT_SERVING Unavailable NOT_SERVING" {
		t.Errorf("while it drains, the watch and the check got %s", got)
	}
	w.wants(w.say("a"), codes.OK, "a call while the server drains")
}

// TestToolsSeeAllServices checks that tools see all services.
func TestToolsSeeAllServices(t *testing.T) {
	w := start(t, Options{})
	stream, err := reflectionpb.NewServerReflectionClient(w.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	v, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range v.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	if got := strings.Join(names, " "); got != "grpc.health.v1.Health grpc.reflection.v1.ServerReflection grpc.reflection.v1alpha.ServerReflection test.Echo" {
		t.Errorf("the listed services are %s", got)
	}
}

// TestCallsUnderWayEndAsUsual checks that a call under way ends as usual, and that no new one is taken.
func TestCallsUnderWayEndAsUsual(t *testing.T) {
	w := start(t, Options{})
	waiting := make(chan error, 1)
	go func() { waiting <- sayOver(t.Context(), w.conn, "wait") }()
	<-w.echo.entered
	idle, err := healthpb.NewHealthClient(w.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := idle.Recv(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Shutdown(t.Context()) }()
	if v, err := idle.Recv(); err != nil || v.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("at the end, the watch got %v, %v; want NOT_SERVING", v, err)
	}
	if _, err := idle.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch goes on: %v", err)
	}
	// The watch ends before the listener closes, so a call in between is taken.
	for end := time.Now().Add(patience); err == nil && time.Now().Before(end); {
		err = sayOver(t.Context(), w.dial(grpc.WithTransportCredentials(insecure.NewCredentials())), "a")
	}
	w.wants(err, codes.Unavailable, "a call over a new connection")
	select {
	case err := <-ended:
		t.Fatalf("Shutdown did not wait: %v", err)
	default:
	}
	close(w.echo.resume)
	if err := <-waiting; err != nil {
		t.Errorf("the call under way: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestShutdownInTime checks that Shutdown ends with its context, and that Close then cuts calls off.
func TestShutdownInTime(t *testing.T) {
	w := start(t, Options{})
	waiting := make(chan error, 1)
	go func() { waiting <- sayOver(t.Context(), w.conn, "wait") }()
	<-w.echo.entered
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := w.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	_ = w.Close()
	w.wants(<-waiting, codes.Unavailable, "the call under way")
}

// TestCallsOverTLS checks a server with TLS, and one that needs a client's certificate.
func TestCallsOverTLS(t *testing.T) {
	pool, leaf := authority(t)
	client := func(config *tls.Config) grpc.DialOption {
		config.RootCAs, config.ServerName = pool, "127.0.0.1"
		return grpc.WithTransportCredentials(credentials.NewTLS(config))
	}
	server := &tls.Config{Certificates: []tls.Certificate{leaf}, MinVersion: tls.VersionTLS12}
	w := start(t, Options{TLS: server}, client(&tls.Config{}))
	w.wants(w.say("a"), codes.OK, "TLS")
	w.wants(sayOver(t.Context(), w.dial(grpc.WithTransportCredentials(insecure.NewCredentials())), "a"), codes.Unavailable, "no TLS")

	mutual := server.Clone()
	mutual.ClientCAs, mutual.ClientAuth = pool, tls.RequireAndVerifyClientCert
	w = start(t, Options{TLS: mutual}, client(&tls.Config{Certificates: []tls.Certificate{leaf}}))
	w.wants(w.say("a"), codes.OK, "TLS with a certificate")
	w.wants(sayOver(t.Context(), w.dial(client(&tls.Config{})), "a"), codes.Unavailable, "no certificate")
	_, foreign := authority(t)
	w.wants(sayOver(t.Context(), w.dial(client(&tls.Config{Certificates: []tls.Certificate{foreign}})), "a"), codes.Unavailable, "a foreign certificate")
}

// authority makes an authority, and a certificate of it for 127.0.0.1 and for clients.
func authority(t *testing.T) (*x509.CertPool, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return pool, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestOtherProtocols checks that what is not gRPC is cut off.
func TestOtherProtocols(t *testing.T) {
	w := start(t, Options{HandshakeTimeout: 500 * time.Millisecond})
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "*3\r\n$3\r\nSET\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""} {
		c, err := net.Dial("tcp", w.at)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%q keeps its connection", text)
		}
		_ = c.Close()
	}
	w.wants(w.say("a"), codes.OK, "a call")
}
