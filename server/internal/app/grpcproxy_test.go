package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const forCalls = `version: 1
listen: {proxy: {address: '127.0.0.1:0', tls: {cert: %q, key: %q}}, api: "off", admin: '127.0.0.1:0'}
upstream: {url: 'https://%s', tls: {ca: %q, server_name: service}}
rules:
  - {name: hourly, match: {path: /grpc.health.v1.Health/Check}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/d}}
  - {name: streams, match: {path: /grpc.health.v1.Health/Watch}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/d}}
  - {name: soon, match: {path: /soon/Call}, key: client_ip, limit: {algorithm: sliding_log, rate: 1/2s}}
  - {name: keyed, match: {path: /keyed/Call}, key: [{part: "header:X-Key", on_missing: deny}], limit: {algorithm: fixed_window, rate: 1/d}}
  - {name: listed, match: {path: /listed/Call}, key: client_ip, deny: {client_ip: [127.0.0.1]}, limit: {algorithm: fixed_window, rate: 1/d}}
  - {name: busy, match: {path: /busy/Call}, key: client_ip, deny: {client_ip: [127.0.0.1]}, limit: {algorithm: fixed_window, rate: 1/d},
     when_limited: {status: 503, body: 'back in {wait} s: 100 %%, ä', header: {X-Why: '{rule}'}}}
`

// Clients of gRPC get refusals as a status of gRPC, and their retry policies do not repeat calls at once.
func TestCallsAreRefusedInTheirProtocol(t *testing.T) {
	t.Parallel()
	inner, outer := newAuthority(t), newAuthority(t)
	own, ownKey := inner.pair("service")
	identity, err := credentials.NewServerTLSFromFile(own, ownKey)
	if err != nil {
		t.Fatal(err)
	}
	service := grpc.NewServer(grpc.Creds(identity))
	healthpb.RegisterHealthServer(service, grpchealth.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = service.Serve(listener) }()
	t.Cleanup(service.Stop)
	cert, key := outer.pair("front")
	r := start(t, parse(t, fmt.Sprintf(forCalls, cert, key, listener.Addr(), inner.file)), nil)
	conn, err := grpc.NewClient(strings.TrimPrefix(r.URL(Proxy), "https://"),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: outer.pool()})),
		grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.01s",
			"maxBackoff": "0.02s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	calls := healthpb.NewHealthClient(conn)
	if v, err := calls.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || v.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatal(v, err)
	}
	var trailer metadata.MD
	_, err = calls.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer))
	if got := status.Convert(err); got.Code() != codes.ResourceExhausted || got.Message() != "Quota exceeded: hourly" {
		t.Errorf("a call beyond the limit: %v", err)
	}
	if wait := retryDelay(err); wait < time.Second || wait > 24*time.Hour {
		t.Errorf("the wait is %v", wait)
	}
	for name, want := range map[string]string{"grpc-retry-pushback-ms": "-1", "ratelimit-policy": `"hourly";q=1;w=86400`, "retry-after": fmt.Sprint(int(retryDelay(err).Seconds()))} {
		if got := trailer.Get(name); len(got) != 1 || got[0] != want {
			t.Errorf("the trailer %s is %q, want %q", name, got, want)
		}
	}
	if got := r.figure(`sluice_decisions_total{outcome="denied",rule="hourly"}`); got != "1" {
		t.Errorf("the client repeated a call whose wait is long: %s denials", got)
	}
	for want := range 2 {
		stream, err := calls.Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if got := status.Code(err); want == 0 && got != codes.OK || want == 1 && got != codes.ResourceExhausted {
			t.Errorf("stream %d: %v", want, err)
		}
	}
	for path, want := range map[string]struct {
		code codes.Code
		text string
	}{
		"/keyed/Call":  {codes.InvalidArgument, "The request lacks X-Key, by which it is counted."},
		"/listed/Call": {codes.PermissionDenied, "Requests of this client are not let pass."},
		"/busy/Call":   {codes.Unavailable, "back in 0 s: 100 %, ä"},
	} {
		err := conn.Invoke(t.Context(), path, &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{}, grpc.Trailer(&trailer))
		if got := status.Convert(err); got.Code() != want.code || got.Message() != want.text || retryDelay(err) != 0 {
			t.Errorf("%s: %v, want %v: %s", path, err, want.code, want.text)
		}
		if path == "/busy/Call" && strings.Join(trailer.Get("x-why"), "") != "busy" {
			t.Errorf("the header of the rule: %v", trailer)
		}
	}
	// The service has no such method: the calls that pass get its own error.
	for range 2 {
		err := conn.Invoke(t.Context(), "/soon/Call", &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{})
		if got := status.Convert(err); got.Code() != codes.Unimplemented {
			t.Errorf("a call with a short wait is repeated after the wait: %v", err)
		}
	}
	if got := r.figure(`sluice_decisions_total{outcome="denied",rule="soon"}`); got != "1" {
		t.Errorf("%s calls were denied, want 1", got)
	}
}

// retryDelay returns the wait of an error, zero for none.
func retryDelay(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// Other requests keep the status of HTTP, even with the content type of gRPC.
func TestRequestsAreNoCalls(t *testing.T) {
	t.Parallel()
	outer := newAuthority(t)
	cert, key := outer.pair("front")
	r := start(t, parse(t, fmt.Sprintf(forCalls, cert, key, "127.0.0.1:1", outer.file)), nil)
	for _, c := range []struct {
		http2               bool
		method, contentType string
		want                int
	}{
		{true, http.MethodPost, "application/grpc", http.StatusOK},
		{true, http.MethodPost, "application/grpc+proto", http.StatusOK},
		{true, http.MethodPost, "application/grpc-web", http.StatusForbidden},
		{true, http.MethodPost, "application/json", http.StatusForbidden},
		{true, http.MethodGet, "application/grpc", http.StatusForbidden},
		{false, http.MethodPost, "application/grpc", http.StatusForbidden},
	} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: outer.pool()}, ForceAttemptHTTP2: c.http2}
		q, err := http.NewRequestWithContext(t.Context(), c.method, r.URL(Proxy)+"/listed/Call", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", c.contentType)
		res, err := tr.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		tr.CloseIdleConnections()
		if res.StatusCode != c.want || (res.Header.Get("Grpc-Status") == "7") != (c.want == http.StatusOK) {
			t.Errorf("%+v: status %d with headers %v", c, res.StatusCode, res.Header)
		}
		if c.want == http.StatusOK && res.Header.Get("Content-Type") != c.contentType {
			t.Errorf("%+v: the content type changed: %v", c, res.Header)
		}
	}
}
