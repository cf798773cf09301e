package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehq/sluice/server/internal/scaler/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// unusedAddress returns an address on which nobody listens.
func unusedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// KEDA asks the program: all four calls, over gRPC, until the program ends.
func TestKedaAsksTheProgram(t *testing.T) {
	address := unusedAddress(t)
	p := launch(t, build(t), fmt.Sprintf(`
version: 1
listen: {proxy: '127.0.0.1:0', api: '127.0.0.1:0', admin: '127.0.0.1:0', keda: '%s'}
rules: [{name: api, key: global, limit: {algorithm: fixed_window, rate: 4/h}}]
`, address))
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ready := grpc.WaitForReady(true)
	if h, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, ready); err != nil ||
		h.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("the health is %v, %v", h, err)
	}
	keda := externalscaler.NewExternalScalerClient(conn)
	api := &externalscaler.ScaledObjectRef{
		Name: "shop", Namespace: "default",
		ScalerMetadata: map[string]string{"scalerAddress": address, "rule": "api", "target": "0.8", "activation": "0.5"},
	}
	stream, err := keda.StreamIsActive(ctx, api)
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
	for range 10 {
		res, err := http.Get(p.url["proxy"])
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	told(true)
	if active, err := keda.IsActive(ctx, api); err != nil || !active.GetResult() {
		t.Errorf("active is %v, %v", active, err)
	}
	spec, err := keda.GetMetricSpec(ctx, api)
	if err != nil {
		t.Fatal(err)
	}
	m := spec.GetMetricSpecs()[0]
	values, err := keda.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: api, MetricName: m.GetMetricName()})
	if err != nil {
		t.Fatal(err)
	}
	if v := values.GetMetricValues()[0]; m.GetTargetSizeFloat() != 0.8 || v.GetMetricName() != m.GetMetricName() || v.GetMetricValueFloat() != 2.5 {
		t.Errorf("10 of 4 requests, at a target of 0.8, are %v and %v", m, v)
	}
	res, err := http.Get(p.url["admin"] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(text), `sluice_rule_pressure_ratio{rule="api"} 2.5`) {
		t.Errorf("the metrics tell another pressure: %v", err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream of a program that ends: %v", err)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("the program ended with %d:\n%s", code, p.stderr)
	}
}
