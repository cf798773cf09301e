package scaler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/server/internal/scaler/externalscaler"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what must come.
const patience = 20 * time.Second

// pressures are those of rules, to be changed by a test.
type pressures struct {
	mu sync.Mutex
	of map[string]float64
}

func (p *pressures) set(rule string, to float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[rule] = to
}

func (p *pressures) remove(rule string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, rule)
}

func (p *pressures) read(rule string) (float64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pressure, known := p.of[rule]
	return pressure, known
}

// serve runs a server until the test ends, and connects to it.
func serve(t *testing.T, p *pressures) (*Server, *grpc.ClientConn) {
	t.Helper()
	s, err := New(Options{Pressure: p.read, Every: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	ln, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, conn
}

// ref is a ScaledObject whose trigger has the metadata, given in pairs.
func ref(meta ...string) *externalscaler.ScaledObjectRef {
	r := &externalscaler.ScaledObjectRef{Name: "shop", Namespace: "default", ScalerMetadata: map[string]string{"scalerAddress": "sluice:9091"}}
	for i := 0; i < len(meta); i += 2 {
		r.ScalerMetadata[meta[i]] = meta[i+1]
	}
	return r
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestAnswersKEDA(t *testing.T) {
	p := &pressures{of: map[string]float64{"Api.v1_a": 1.75, "quiet": 0, "flood": 1e12}}
	_, conn := serve(t, p)
	keda, ctx := externalscaler.NewExternalScalerClient(conn), bounded(t)
	for _, c := range []struct {
		rule, target, activation string
		name                     string
		spec, value              float64
		specInt, valueInt        int64
		active                   bool
	}{
		{"Api.v1_a", "0.8", "", "sluice-pressure-api-v1-a", 0.8, 1.75, 1, 2, true},
		{"Api.v1_a", " 2 ", "1.75", "sluice-pressure-api-v1-a", 2, 1.75, 2, 2, false},
		{"Api.v1_a", "0.001", "1.74", "sluice-pressure-api-v1-a", 0.001, 1.75, 1, 2, true},
		{"quiet", "0.8", "", "sluice-pressure-quiet", 0.8, 0, 1, 0, false},
		{"flood", "1e6", "0", "sluice-pressure-flood", 1e6, 1e6, 1e6, 1e6, true},
	} {
		r := ref("rule", c.rule, "target", c.target)
		if c.activation != "" {
			r.ScalerMetadata["activation"] = c.activation
		}
		spec, err := keda.GetMetricSpec(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		wantSpec := &externalscaler.MetricSpec{MetricName: c.name, TargetSize: c.specInt, TargetSizeFloat: c.spec}
		if got := spec.GetMetricSpecs(); len(got) != 1 || !proto.Equal(got[0], wantSpec) {
			t.Errorf("%s: the spec is %v; want %v", c.rule, got, wantSpec)
		}
		values, err := keda.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: r, MetricName: c.name})
		if err != nil {
			t.Fatal(err)
		}
		wantValue := &externalscaler.MetricValue{MetricName: c.name, MetricValue: c.valueInt, MetricValueFloat: c.value}
		if got := values.GetMetricValues(); len(got) != 1 || !proto.Equal(got[0], wantValue) {
			t.Errorf("%s: the value is %v; want %v", c.rule, got, wantValue)
		}
		active, err := keda.IsActive(ctx, r)
		if err != nil || active.GetResult() != c.active {
			t.Errorf("%s: active is %v, %v; want %t", c.rule, active, err, c.active)
		}
	}
}

// A stream tells the state at once, and then each change, and nothing in between.
func TestStreamsActivity(t *testing.T) {
	p := &pressures{of: map[string]float64{"api": 0.1}}
	s, conn := serve(t, p)
	keda := externalscaler.NewExternalScalerClient(conn)
	stream, err := keda.StreamIsActive(bounded(t), ref("rule", "api", "target", "0.8", "activation", "0.5"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		pressure float64
		want     bool
	}{{0.1, false}, {0.6, true}, {0.5, false}, {3, true}, {0, false}} {
		p.set("api", step.pressure)
		got, err := stream.Recv()
		if err != nil || got.GetResult() != step.want {
			t.Fatalf("at %v: %v, %v; want %t", step.pressure, got, err, step.want)
		}
	}
	// The end of the server is the end of the stream, and no error.
	s.Drain()
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the drain: %v", err)
	}
}

func TestStreamOfARuleThatGoes(t *testing.T) {
	p := &pressures{of: map[string]float64{"api": 1}}
	_, conn := serve(t, p)
	stream, err := externalscaler.NewExternalScalerClient(conn).StreamIsActive(bounded(t), ref("rule", "api", "target", "0.8"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	p.remove("api")
	if _, err := stream.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
}

// Streams whose clients leave give their places back.
func TestStreamsAreBounded(t *testing.T) {
	p := &pressures{of: map[string]float64{"api": 1}}
	s, conn := serve(t, p)
	keda, api := externalscaler.NewExternalScalerClient(conn), ref("rule", "api", "target", "1")
	s.scaler.streams.Store(maxStreams - 1)
	ctx, leave := context.WithCancel(bounded(t))
	first, err := keda.StreamIsActive(ctx, api)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Recv(); err != nil {
		t.Fatal(err)
	}
	second, err := keda.StreamIsActive(bounded(t), api)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one too many got %v", err)
	}
	leave()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := bounded(t); s.scaler.streams.Load() != maxStreams-1; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d places are taken", s.scaler.streams.Load())
		}
	}
}

func TestRefusesMetadata(t *testing.T) {
	p := &pressures{of: map[string]float64{"api": 1}}
	_, conn := serve(t, p)
	keda, ctx := externalscaler.NewExternalScalerClient(conn), bounded(t)
	for _, c := range []struct {
		ref  *externalscaler.ScaledObjectRef
		code codes.Code
		says string
	}{
		{nil, codes.InvalidArgument, "has no rule; give the name"},
		{ref("target", "1"), codes.InvalidArgument, "has no rule; give the name"},
		{ref("rule", "api"), codes.InvalidArgument, `has no target; give one such as "0.8"`},
		{ref("rule", "api", "target", "much"), codes.InvalidArgument, `target is "much"; give a number`},
		{ref("rule", "api", "target", "0"), codes.InvalidArgument, "from 0.001"},
		{ref("rule", "api", "target", "NaN"), codes.InvalidArgument, "NaN"},
		{ref("rule", "api", "target", "Inf"), codes.InvalidArgument, "Inf"},
		{ref("rule", "api", "target", strings.Repeat("9", 1000)), codes.InvalidArgument, "99…"},
		{ref("rule", "api", "target", "1", "activation", "-1"), codes.InvalidArgument, `activation is "-1"`},
		{ref("rule", "apj", "target", "1"), codes.NotFound, `no rule "apj"`},
	} {
		calls := map[string]error{}
		_, calls["IsActive"] = keda.IsActive(ctx, c.ref)
		_, calls["GetMetricSpec"] = keda.GetMetricSpec(ctx, c.ref)
		_, calls["GetMetrics"] = keda.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: c.ref})
		stream, err := keda.StreamIsActive(ctx, c.ref)
		if err == nil {
			_, err = stream.Recv()
		}
		calls["StreamIsActive"] = err
		for call, err := range calls {
			if status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s of %v: %v; want %v: %s", call, c.ref, err, c.code, c.says)
			}
		}
	}
	_, err := keda.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: ref("rule", "api", "target", "1"), MetricName: "s0-x"})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "sluice-pressure-api") {
		t.Errorf("another metric: %v", err)
	}
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "Pressure is nil") {
		t.Errorf("no options: %v", err)
	}
}

// KEDA's newer calls are optional: it takes Unimplemented for "ask the others".
func TestCallsThatAreNotThere(t *testing.T) {
	_, conn := serve(t, &pressures{of: map[string]float64{"api": 1}})
	desc := &grpc.StreamDesc{StreamName: "StreamMetricSpec", ServerStreams: true}
	stream, err := conn.NewStream(bounded(t), desc, "/externalscaler.ExternalScaler/StreamMetricSpec")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(ref("rule", "api", "target", "1")); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&externalscaler.GetMetricSpecResponse{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}

func TestHealthAndReflection(t *testing.T) {
	s, conn := serve(t, &pressures{})
	probe, ctx := grpc_health_v1.NewHealthClient(conn), bounded(t)
	for _, service := range []string{"", "externalscaler.ExternalScaler"} {
		got, err := probe.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", service, got, err)
		}
	}
	info, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := info.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	services, err := info.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range services.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{"externalscaler.ExternalScaler", "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("reflection tells of %q, and not of %s", names, want)
		}
	}
	s.Drain()
	got, err := probe.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("after the drain: %v, %v", got, err)
	}
}

// A shutdown lets calls end, and does not wait for those that never do.
func TestShutdown(t *testing.T) {
	s, conn := serve(t, &pressures{of: map[string]float64{"api": 1}})
	stream, err := externalscaler.NewExternalScalerClient(conn).StreamIsActive(bounded(t), ref("rule", "api", "target", "1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(bounded(t)); err != nil {
		t.Errorf("%v", err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream got %v", err)
	}

	s, conn = serve(t, &pressures{})
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(bounded(t), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with one who watches: %v", err)
	}
}

// The wire is the published one: the numbers and types of all fields.
func TestWire(t *testing.T) {
	const want = "ScaledObjectRef: 1 name string, 2 namespace string, 3 scalerMetadata map; " +
		"IsActiveResponse: 1 result bool; " +
		"GetMetricSpecResponse: 1 metricSpecs list of MetricSpec; " +
		"MetricSpec: 1 metricName string, 2 targetSize int64, 3 targetSizeFloat double; " +
		"GetMetricsRequest: 1 scaledObjectRef message, 2 metricName string; " +
		"GetMetricsResponse: 1 metricValues list of MetricValue; " +
		"MetricValue: 1 metricName string, 2 metricValue int64, 3 metricValueFloat double"
	var messages []string
	file := externalscaler.File_externalscaler_proto
	for i := range file.Messages().Len() {
		m := file.Messages().Get(i)
		var fields []string
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			kind := f.Kind().String()
			switch {
			case f.IsMap():
				kind = "map"
			case f.IsList():
				kind = "list of " + string(f.Message().Name())
			}
			fields = append(fields, fmt.Sprintf("%d %s %s", f.Number(), f.Name(), kind))
		}
		messages = append(messages, string(m.Name())+": "+strings.Join(fields, ", "))
	}
	if got := strings.Join(messages, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if file.Package() != "externalscaler" {
		t.Errorf("the package is %s", file.Package())
	}
}
