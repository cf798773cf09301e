package app

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const forEnvoy = `version: 1
listen: {proxy: "off", api: "off", admin: '127.0.0.1:0', grpc: '127.0.0.1:0'}
rules:
  - name: per-address
    descriptor: {domain: edge, entries: [remote_address]}
    limit: {algorithm: fixed_window, rate: 1/d}
`

// dialGRPC connects to the listener for gRPC.
func (r *running) dialGRPC(c credentials.TransportCredentials) *grpc.ClientConn {
	r.t.Helper()
	_, address, ok := strings.Cut(r.URL(GRPC), "://")
	if !ok {
		address = r.URL(GRPC) // package grpc has the same form for Unix sockets
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// shouldLimit calls about an address, with metadata in pairs, and returns the code, or the error.
func (r *running) shouldLimit(conn *grpc.ClientConn, address string, md ...string) string {
	r.t.Helper()
	v, err := ratelimitpb.NewRateLimitServiceClient(conn).ShouldRateLimit(metadata.AppendToOutgoingContext(r.t.Context(), md...), &ratelimitpb.RateLimitRequest{
		Domain: "edge",
		Descriptors: []*commonpb.RateLimitDescriptor{{
			Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "remote_address", Value: address}},
		}},
	})
	if err != nil {
		return status.Code(err).String()
	}
	return v.GetOverallCode().String()
}

// Calls of Envoy are decided, counted by rule and edge, and logged without the key.
func TestCallsOfEnvoyAreDecidedAndCounted(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, forEnvoy), nil)
	announced(t, r, "grpc   grpc://127.0.0.1:")
	conn := r.dialGRPC(insecure.NewCredentials())
	if got := r.shouldLimit(conn, "192.0.2.1") + " " + r.shouldLimit(conn, "192.0.2.1") + " " + r.shouldLimit(conn, "192.0.2.2"); got != "OK OVER_LIMIT OK" {
		t.Errorf("three calls got %s", got)
	}
	for series, want := range map[string]string{
		`sluice_decisions_total{outcome="allowed",rule="per-address"}`: "2",
		`sluice_decisions_total{outcome="denied",rule="per-address"}`:  "1",
		`sluice_decision_duration_seconds_count{edge="rls"}`:           "3",
	} {
		if got := r.figure(series); got != want {
			t.Errorf("%s is %s, want %s", series, got, want)
		}
	}
	if log := r.log.String(); !strings.Contains(log, "edge=rls") || strings.Contains(log, "192.0.2.1") {
		t.Errorf("the log of a denial:\n%s", log)
	}
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "envoy.service.ratelimit.v3.RateLimitService"})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := watch.Recv(); err != nil || v.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("the service should be serving: %v, %v", v, err)
	}
	r.stop()
	if v, err := watch.Recv(); err != nil || v.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("while it drains: %v, %v", v, err)
	}
	r.end()
}

// Requests that Envoy reports are decided by the rules for requests, and counted by rule and edge.
func TestEnvoyReportsRequests(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, forEnvoy+"  - {name: per-client, match: {path: /api/**}, key: [client_ip], limit: {algorithm: fixed_window, rate: 1/d}}\n"), nil)
	client := authpb.NewAuthorizationClient(r.dialGRPC(insecure.NewCredentials()))
	q := &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
		Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{Address: "192.0.2.1"}}}},
		Request: &authpb.AttributeContext_Request{Http: &authpb.AttributeContext_HttpRequest{
			Method: "GET", Path: "/api/x?a=b", Host: "example.com", Headers: map[string]string{":method": "GET", "user-agent": "test"},
		}},
	}}
	var got []string
	for range 2 {
		v, err := client.Check(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(v.GetDeniedResponse().GetStatus().GetCode(), v.GetOkResponse() != nil))
	}
	if want := "[Empty true TooManyRequests false]"; fmt.Sprint(got) != want {
		t.Errorf("%v; want %s", got, want)
	}
	for series, want := range map[string]string{
		`sluice_decisions_total{outcome="denied",rule="per-client"}`: "1",
		`sluice_decision_duration_seconds_count{edge="ext_authz"}`:   "2",
	} {
		if got := r.figure(series); got != want {
			t.Errorf("%s is %s, want %s", series, got, want)
		}
	}
	if log := r.log.String(); !strings.Contains(log, "edge=ext_authz") || strings.Contains(log, "192.0.2.1") {
		t.Errorf("the log of a denial:\n%s", log)
	}
}

// Envoy proves itself as callers of the decision API do.
func TestEnvoyHasTheTokenOfTheAPI(t *testing.T) {
	t.Parallel()
	f := parse(t, strings.Replace(forEnvoy, "grpc: '127.0.0.1:0'", "grpc: '0.0.0.0:0'", 1)+"api: {token: the-api-token-123456}\n")
	r := start(t, f, func(o *Options) { o.APIToken, o.ReadToken = "the-api-token-123456", "the-read-token-12345" })
	announced(t, r, "grpc   grpc://0.0.0.0:", "with a token")
	conn := r.dialGRPC(insecure.NewCredentials())
	with := func(token string) string {
		return " " + r.shouldLimit(conn, "192.0.2.1", "authorization", "Bearer "+token)
	}
	if got := r.shouldLimit(conn, "192.0.2.1") + with("the-api-token-123456") + with("the-read-token-12345"); got != "Unauthenticated OK PermissionDenied" {
		t.Errorf("without a token, with it, and with a token that only reads, the calls got %s", got)
	}
}

// Over TLS, Envoy needs a certificate if the listener has an authority.
func TestEnvoyOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.pair("front")
	f := parse(t, strings.Replace(forEnvoy, "grpc: '127.0.0.1:0'",
		fmt.Sprintf("grpc: {address: '0.0.0.0:0', tls: {cert: %q, key: %q, client_ca: %q}}", cert, key, ca.file), 1))
	r := start(t, f, nil)
	announced(t, r, "grpc   grpcs://0.0.0.0:", "with a client certificate")
	mine, myKey := ca.pair("client")
	own, err := tls.LoadX509KeyPair(mine, myKey)
	if err != nil {
		t.Fatal(err)
	}
	conn := r.dialGRPC(credentials.NewTLS(&tls.Config{RootCAs: ca.pool(), ServerName: "front", Certificates: []tls.Certificate{own}}))
	if got := r.shouldLimit(conn, "192.0.2.1"); got != "OK" {
		t.Errorf("with a certificate, the call got %s", got)
	}
	conn = r.dialGRPC(credentials.NewTLS(&tls.Config{RootCAs: ca.pool(), ServerName: "front"}))
	if got := r.shouldLimit(conn, "192.0.2.1"); got != codes.Unavailable.String() {
		t.Errorf("without a certificate, the call got %s, want Unavailable", got)
	}
}

// The bounds on connections hold for gRPC too.
func TestEnvoyHasFewConnections(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, forEnvoy+"http: {max_connections_per_client: 1}\n"), nil)
	conn := r.dialGRPC(insecure.NewCredentials())
	if got := r.shouldLimit(conn, "192.0.2.1"); got != "OK" {
		t.Fatalf("the first connection got %s", got)
	}
	if got := r.shouldLimit(r.dialGRPC(insecure.NewCredentials()), "192.0.2.2"); got != codes.Unavailable.String() {
		t.Errorf("a second connection: %s", got)
	}
	if got := r.shouldLimit(conn, "192.0.2.2"); got != "OK" {
		t.Errorf("the first connection got %s later", got)
	}
}
