package protocols

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicehq/sluice/checks/process"
)

const forEnvoy = `listen: {proxy: 'off', api: 'off', admin: 'off', grpc: '127.0.0.1:0'}
domains: [bare]
rules:
  - name: per-user
    descriptor: {domain: edge, entries: [user], label: users, metadata: {tier: free}}
    limit: {algorithm: token_bucket, rate: 10/d, burst: 10}
  - name: tens
    descriptor: {domain: edge, entries: [tens]}
    limit: {algorithm: token_bucket, rate: 100/10d, burst: 100}
  - name: busy
    descriptor: {domain: edge, entries: [busy]}
    limit: {algorithm: token_bucket, rate: 1/d, burst: 1}
    when_limited: {body: 'come back in {wait} s', header: {X-Why: '{rule}'}}
  - name: marked
    descriptor: {domain: edge, entries: [marked]}
    limit: {algorithm: token_bucket, rate: 1/d, burst: 1}
    when_limited: {action: mark}
  - name: free
    descriptor: {domain: edge, entries: [free]}
    unlimited: true
`

// envoy is a client of the gRPC listener.
type envoy struct {
	testing.TB
	conn   *grpc.ClientConn
	limits ratelimitpb.RateLimitServiceClient
}

func dialEnvoy(tb testing.TB, s *process.Sluice) *envoy {
	tb.Helper()
	conn, err := grpc.NewClient(s.Address("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return &envoy{tb, conn, ratelimitpb.NewRateLimitServiceClient(conn)}
}

// call is a request for the domain edge.
func call(descriptors ...*commonpb.RateLimitDescriptor) *ratelimitpb.RateLimitRequest {
	return &ratelimitpb.RateLimitRequest{Domain: "edge", Descriptors: descriptors}
}

// one is a descriptor of one entry.
func one(key, value string) *commonpb.RateLimitDescriptor {
	return &commonpb.RateLimitDescriptor{Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: key, Value: value}}}
}

// answer makes a call, and returns its answer.
func (e *envoy) answer(q *ratelimitpb.RateLimitRequest) *ratelimitpb.RateLimitResponse {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), process.Patience)
	defer cancel()
	v, err := e.limits.ShouldRateLimit(ctx, q)
	if err != nil {
		e.Fatal(err)
	}
	return v
}

// wants compares an answer, without its headers and metadata, with a message in text.
func (e *envoy) wants(name string, q *ratelimitpb.RateLimitRequest, text string) {
	e.Helper()
	var want ratelimitpb.RateLimitResponse
	if err := prototext.Unmarshal([]byte(text), &want); err != nil {
		e.Fatal(err)
	}
	got := e.answer(q)
	got.ResponseHeadersToAdd, got.RequestHeadersToAdd, got.DynamicMetadata, got.RawBody = nil, nil, nil, nil
	if !proto.Equal(got, &want) {
		e.Errorf("%s:\ngot  %v\nwant %v", name, got, &want)
	}
}

// TestRateLimitService makes calls with every field, and reads every field of the answers, with the client that grpc-go
// generates.
func TestRateLimitService(t *testing.T) {
	t.Parallel()
	e := dialEnvoy(t, serve(t, forEnvoy))
	const perUser = `current_limit {requests_per_unit: 10 unit: DAY name: "users"}`
	user := func(change func(*commonpb.RateLimitDescriptor)) *commonpb.RateLimitDescriptor {
		d := one("user", "a")
		change(d)
		return d
	}
	e.wants("one hit", call(one("user", "a")), `overall_code: OK statuses {code: OK `+perUser+` limit_remaining: 9 duration_until_reset {seconds: 8640}}`)
	hits := call(one("user", "b"))
	hits.HitsAddend = 4
	e.wants("hits of the request", hits, `overall_code: OK statuses {code: OK `+perUser+` limit_remaining: 6 duration_until_reset {seconds: 34560}}`)
	own := call(user(func(d *commonpb.RateLimitDescriptor) {
		d.Entries[0].Value, d.HitsAddend = "c", wrapperspb.UInt64(3)
	}), one("user", "d"), one("nobody", "x"), one("free", "x"))
	own.HitsAddend = 5
	e.wants("statuses in order", own, `overall_code: OK
		statuses {code: OK `+perUser+` limit_remaining: 7 duration_until_reset {seconds: 25920}}
		statuses {code: OK `+perUser+` limit_remaining: 5 duration_until_reset {seconds: 43200}}
		statuses {code: OK} statuses {code: OK limit_remaining: 4294967295}`)
	look := call(user(func(d *commonpb.RateLimitDescriptor) { d.Entries[0].Value, d.HitsAddend = "e", wrapperspb.UInt64(0) }))
	e.wants("a look", look, `overall_code: OK statuses {code: OK `+perUser+` limit_remaining: 10 duration_until_reset {}}`)
	e.wants("a look again", look, `overall_code: OK statuses {code: OK `+perUser+` limit_remaining: 10 duration_until_reset {}}`)

	hits = call(one("user", "f"))
	hits.HitsAddend = 10
	e.wants("all hits", hits, `overall_code: OK statuses {code: OK `+perUser+` duration_until_reset {seconds: 86400}}`)
	e.wants("over the limit", call(one("user", "f"), one("user", "g")), `overall_code: OVER_LIMIT
		statuses {code: OVER_LIMIT `+perUser+` duration_until_reset {seconds: 8640}} statuses {code: OK `+perUser+` limit_remaining: 10 duration_until_reset {}}`)
	e.answer(call(user(func(d *commonpb.RateLimitDescriptor) {
		d.Entries[0].Value, d.HitsAddend, d.IsNegativeHits = "f", wrapperspb.UInt64(10), true
	})))
	e.wants("after a refund", hits, `overall_code: OK statuses {code: OK `+perUser+` duration_until_reset {seconds: 86400}}`)

	override := one("x", "y")
	override.Limit = &commonpb.RateLimitDescriptor_RateLimitOverride{Unit: typepb.RateLimitUnit_YEAR}
	e.wants("a limit of no hits", &ratelimitpb.RateLimitRequest{Domain: "bare", Descriptors: []*commonpb.RateLimitDescriptor{override}},
		`overall_code: OVER_LIMIT statuses {code: OVER_LIMIT current_limit {unit: YEAR} duration_until_reset {}}`)
	e.wants("an unknown domain", &ratelimitpb.RateLimitRequest{Domain: "other", Descriptors: []*commonpb.RateLimitDescriptor{one("user", "a")}}, `overall_code: OK statuses {code: OK}`)

	for _, q := range []*ratelimitpb.RateLimitRequest{{}, {Domain: "edge"}, {Descriptors: []*commonpb.RateLimitDescriptor{one("a", "b")}}} {
		_, err := e.limits.ShouldRateLimit(t.Context(), q)
		if s := status.Convert(err); s.Code() != codes.InvalidArgument || !strings.Contains(s.Message(), ";") {
			t.Errorf("the call %v should be refused with a remedy: %v", q, err)
		}
	}
}

// TestRateLimitServiceMultiplies checks the fields that the generated code lacks, unit_multiplier of both messages.
func TestRateLimitServiceMultiplies(t *testing.T) {
	t.Parallel()
	e := dialEnvoy(t, serve(t, forEnvoy))
	// field 1 of a UInt32Value, as the field of that number
	multiplier := func(field protowire.Number, n uint64) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), n))
	}
	shown := func(q *ratelimitpb.RateLimitRequest) string {
		l := e.answer(q).GetStatuses()[0].GetCurrentLimit()
		return fmt.Sprintf("%d %v %x", l.GetRequestsPerUnit(), l.GetUnit(), []byte(l.ProtoReflect().GetUnknown()))
	}
	if got, want := shown(call(one("tens", "a"))), fmt.Sprintf("100 DAY %x", multiplier(4, 10)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	d := one("x", "y")
	d.Limit = &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: typepb.RateLimitUnit_MINUTE}
	d.Limit.ProtoReflect().SetUnknown(multiplier(3, 30))
	if got, want := shown(call(d)), fmt.Sprintf("5 MINUTE %x", multiplier(4, 30)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	// Tools that read the protocol by reflection find the field.
	stream, err := reflectionpb.NewServerReflectionClient(e.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "envoy.service.ratelimit.v3.RateLimitService",
	}}); err != nil {
		t.Fatal(err)
	}
	v, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, b := range v.GetFileDescriptorResponse().GetFileDescriptorProto() {
		var file descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(b, &file); err != nil {
			t.Fatal(err)
		}
		found += strings.Count(prototext.Format(&file), `"unit_multiplier"`)
	}
	if found != 2 {
		t.Errorf("reflection shows %d fields, want 2: %v", found, v.GetErrorResponse())
	}
}

// TestRateLimitServiceExplains checks the headers, the body and the metadata of answers.
func TestRateLimitServiceExplains(t *testing.T) {
	t.Parallel()
	e := dialEnvoy(t, serve(t, forEnvoy))
	headers := func(v *ratelimitpb.RateLimitResponse) string {
		var all []string
		for _, h := range v.GetResponseHeadersToAdd() {
			all = append(all, h.GetKey()+": "+h.GetValue())
		}
		for _, h := range v.GetRequestHeadersToAdd() {
			all = append(all, "> "+h.GetKey()+": "+h.GetValue())
		}
		return strings.Join(all, "\n")
	}
	allowed := e.answer(call(one("user", "a")))
	if got, want := headers(allowed), "Ratelimit: \"per-user\";r=9;t=8640\nRatelimit-Policy: \"per-user\";q=10;w=86400"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	metadata := allowed.GetDynamicMetadata().AsMap()
	if got, want := fmt.Sprint(metadata), "map[action:allow explanation:allow: the tightest rule is per-user, 9 of 10 remain limit:per-user metadata:map[tier:free] rule:per-user]"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	e.answer(call(one("busy", "a")))
	denied := e.answer(call(one("busy", "a")))
	if got := headers(denied); !strings.Contains(got, "Retry-After: 86400\n") || !strings.Contains(got, "X-Why: busy") {
		t.Errorf("the headers of a refusal are %s", got)
	}
	if got := string(denied.GetRawBody()); got != "come back in 86400 s" {
		t.Errorf("the body of a refusal is %q", got)
	}
	if got := denied.GetDynamicMetadata().AsMap(); got["reason"] != "limited" || got["retry_after_seconds"] != 86400.0 {
		t.Errorf("the metadata of a refusal are %v", got)
	}
	e.answer(call(one("marked", "a")))
	if got := headers(e.answer(call(one("marked", "a")))); got != "> Sluice-Marked: marked" {
		t.Errorf("the headers of a marked request are %q", got)
	}
}

// TestRateLimitServiceDrains checks that a server that stops says so first, and that no call fails that it has taken.
func TestRateLimitServiceDrains(t *testing.T) {
	t.Parallel()
	s := serve(t, forEnvoy)
	e := dialEnvoy(t, s)
	watch, err := healthpb.NewHealthClient(e.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
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
	if got := next(); got != "SERVING" {
		t.Fatalf("before the end, the watch got %s, want SERVING", got)
	}
	failed, calls := make(chan error, 16), make(chan struct{}, 16)
	for i := range cap(failed) {
		go func() {
			for {
				_, err := e.limits.ShouldRateLimit(t.Context(), call(one("nobody", fmt.Sprint(i))))
				if err != nil {
					failed <- err
					return
				}
				select {
				case calls <- struct{}{}:
				default:
				}
			}
		}()
	}
	<-calls
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := next() + " " + next(); got != "NOT_SERVING Unavailable" {
		t.Errorf("at the end, the watch got %s, want NOT_SERVING Unavailable", got)
	}
	for range cap(failed) {
		// A call that the server has not taken fails because nothing listens any more.
		if err := <-failed; !strings.Contains(err.Error(), "connection refused") {
			t.Error(err)
		}
	}
	select {
	case <-s.Ended():
	case <-time.After(process.Patience):
		t.Error("the server does not end")
	}
}
