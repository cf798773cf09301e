package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/sluicehq/sluice/server/internal/scaler/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// dial connects as KEDA does.
func (r *running) dial(c credentials.TransportCredentials) *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient(r.URL(Keda), grpc.WithTransportCredentials(c))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

func (r *running) patient() context.Context {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

func trigger(rule, target string) *externalscaler.ScaledObjectRef {
	return &externalscaler.ScaledObjectRef{Name: "shop", Namespace: "default", ScalerMetadata: map[string]string{"rule": rule, "target": target}}
}

// KEDA is told the pressure of real traffic by all four calls, also on rules that come while the
// server runs, and the end of the server.
func TestKeda(t *testing.T) {
	r := reloading(t, free+"rules: [{name: api, key: global, limit: {algorithm: fixed_window, rate: 4/h}}]\n")
	if r.URL(Keda) != "" {
		t.Fatalf("KEDA is served at %s, and nobody asked for it", r.URL(Keda))
	}
	r.end()
	keda := "version: 1\nlisten: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0', keda: '127.0.0.1:0'}\n"
	const rule = "{name: %s, match: {path: /%[1]s}, key: global, limit: {algorithm: fixed_window, rate: 4/h}}"
	r = reloading(t, keda+"rules: ["+fmt.Sprintf(rule, "api")+"]\n")
	conn, ctx := r.dial(insecure.NewCredentials()), r.patient()
	client := externalscaler.NewExternalScalerClient(conn)

	spec, err := client.GetMetricSpec(ctx, trigger("api", "0.8"))
	if err != nil {
		t.Fatal(err)
	}
	if m := spec.GetMetricSpecs()[0]; m.GetMetricName() != "sluice-pressure-api" || m.GetTargetSizeFloat() != 0.8 {
		t.Errorf("the spec is %v", spec)
	}
	pressure := func(rule string) float64 {
		t.Helper()
		values, err := client.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: trigger(rule, "0.8"), MetricName: "sluice-pressure-" + rule})
		if err != nil {
			t.Fatal(err)
		}
		return values.GetMetricValues()[0].GetMetricValueFloat()
	}
	active := func(want bool) {
		t.Helper()
		if got, err := client.IsActive(ctx, trigger("api", "0.8")); err != nil || got.GetResult() != want {
			t.Errorf("active is %v, %v; want %t", got, err, want)
		}
	}
	stream, err := client.StreamIsActive(ctx, trigger("api", "0.8"))
	if err != nil {
		t.Fatal(err)
	}
	told := func(want bool) {
		t.Helper()
		if got, err := stream.Recv(); err != nil || got.GetResult() != want {
			t.Fatalf("the stream tells %v, %v; want %t", got, err, want)
		}
	}
	told(false)
	active(false)
	for range 6 {
		r.ask(Proxy, http.MethodGet, "/api", "")
	}
	if got := pressure("api"); got != 1.5 {
		t.Errorf("6 of 4 are %v", got)
	}
	active(true)
	told(true)

	if _, err := client.IsActive(ctx, trigger("new", "1")); status.Code(err) != codes.NotFound {
		t.Errorf("a rule that is not there: %v", err)
	}
	r.write(keda + "rules: [" + fmt.Sprintf(rule, "api") + ", " + fmt.Sprintf(rule, "new") + "]\n")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.ask(Proxy, http.MethodGet, "/new", "")
	if a, b := pressure("api"), pressure("new"); a != 1.5 || b != 0.25 {
		t.Errorf("after a reload the pressures are %v and %v", a, b)
	}

	probe, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := probe.Recv(); err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("the health is %v, %v", got, err)
	}
	r.stop()
	if got, err := probe.Recv(); err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("the health of a server that stops is %v, %v", got, err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream of a server that stops: %v", err)
	}
	r.end()
	if r.err != nil {
		t.Error(r.err)
	}
}

func TestKedaOverTLS(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.pair("sluice")
	r := start(t, parse(t, fmt.Sprintf(`
version: 1
listen: {proxy: off, api: off, admin: '127.0.0.1:0', keda: {address: '127.0.0.1:0', tls: {cert: %q, key: %q}}}
rules: [{name: api, key: global, limit: {algorithm: fixed_window, rate: 4/h}}]
`, cert, key)), nil)
	client := externalscaler.NewExternalScalerClient(r.dial(credentials.NewTLS(&tls.Config{RootCAs: a.pool()})))
	if got, err := client.IsActive(r.patient(), trigger("api", "1")); err != nil || got.GetResult() {
		t.Errorf("over TLS: %v, %v", got, err)
	}
	client = externalscaler.NewExternalScalerClient(r.dial(insecure.NewCredentials()))
	if _, err := client.IsActive(r.patient(), trigger("api", "1")); status.Code(err) != codes.Unavailable {
		t.Errorf("in plain text: %v", err)
	}
}

// What cannot be listened at is told, and what was opened is closed.
func TestKedaCannotListen(t *testing.T) {
	_, err := New(Options{File: parse(t, "version: 1\nlisten: {proxy: off, api: off, admin: off, keda: '192.0.2.1:1'}\n"), Version: "test"})
	if err == nil {
		t.Fatal("it listens at an address that is not ours")
	}
	a, err := New(Options{File: parse(t, "version: 1\nlisten: {proxy: off, api: off, admin: off, keda: '127.0.0.1:0'}\n"), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
}
