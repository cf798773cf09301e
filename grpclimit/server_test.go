package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

func TestCallersHaveLimitsOfTheirOwn(t *testing.T) {
	conn := serveTCP(t, &service{}, must(grpclimit.PerClient("2/d")))
	want(t, call(t.Context(), conn), codes.OK)
	stream := open(t.Context(), conn)
	_ = stream.CloseSend()
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	want(t, call(t.Context(), conn), codes.ResourceExhausted)
	_, err := open(t.Context(), conn).Recv()
	want(t, err, codes.ResourceExhausted)
	if _, err := grpclimit.PerClient("2"); err == nil || !strings.HasPrefix(err.Error(), "grpclimit: PerClient: ") {
		t.Error(err)
	}
}

// Marks and degraded calls reach handlers as metadata, which clients cannot send.
func TestMarksReachHandlersAsMetadata(t *testing.T) {
	var got metadata.MD
	s := &service{create: func(ctx context.Context, in *text) (*text, error) {
		got, _ = metadata.FromIncomingContext(ctx)
		return in, nil
	}}
	rules := []policy.Rule{
		{Name: "slow", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(1)}, WhenLimited: policy.LimitedAction{Action: policy.Degrade}},
		{Name: "odd", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(1)}, WhenLimited: policy.LimitedAction{Action: policy.Mark, RequestHeader: map[string]string{"X-Odd": "{rule}"}}},
	}
	forged := with("sluice-marked", "me", "sluice-degraded", "me", "x-odd", "me", "x-odd", "me", "x-other", "stays")
	p := must(policy.New(policy.Options{Rules: rules}))
	for _, trusted := range []bool{false, true} {
		o := grpclimit.PolicyOptions{Policy: p, Store: must(memory.New(memory.Options{}))}
		if trusted {
			o.TrustMarks = func(*grpclimit.Call) bool { return true }
		}
		conn := serve(t, s, limited(t, must(grpclimit.NewPolicyDecider(o)), grpclimit.ServerOptions{}))
		want(t, call(forged, conn), codes.OK)
		if _, there := got["x-odd"]; there != trusted || got["x-other"] == nil {
			t.Errorf("trusted %v: the metadata is %v", trusted, got)
		}
		want(t, call(forged, conn), codes.OK)
		if !slices.Equal(got["x-odd"], []string{"odd"}) || !slices.Equal(got["sluice-degraded"], []string{"slow"}) || (got["sluice-marked"] != nil) != trusted {
			t.Errorf("trusted %v: the metadata is %v", trusted, got)
		}
	}
}

// A call without metadata of its own gets the mark of one rule, whether the rule marks or degrades.
func TestOneRuleMarksACall(t *testing.T) {
	var got metadata.MD
	s := &service{create: func(ctx context.Context, in *text) (*text, error) {
		got, _ = metadata.FromIncomingContext(ctx)
		return in, nil
	}}
	for action, name := range map[policy.Action]string{policy.Mark: "sluice-marked", policy.Degrade: "sluice-degraded"} {
		rule := policy.Rule{Name: "odd", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(1)}, WhenLimited: policy.LimitedAction{Action: action}}
		p := must(policy.New(policy.Options{Rules: []policy.Rule{rule}}))
		d := must(grpclimit.NewPolicyDecider(grpclimit.PolicyOptions{Policy: p, Store: must(memory.New(memory.Options{}))}))
		conn := serve(t, s, limited(t, d, grpclimit.ServerOptions{}))
		for _, marked := range []bool{false, true} {
			want(t, call(t.Context(), conn), codes.OK)
			if slices.Equal(got[name], []string{"odd"}) != marked {
				t.Errorf("marked %v: the metadata is %v", marked, got)
			}
		}
	}
}

// TestOneForgedMark: a key that only rules may set is removed, also if it is the only one. A call without metadata, as from
// another interceptor, gets a mark too.
func TestOneForgedMark(t *testing.T) {
	rules := []policy.Rule{
		{Name: "slow", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(4)}, WhenLimited: policy.LimitedAction{Action: policy.Degrade}},
		{Name: "odd", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(4)}, WhenLimited: policy.LimitedAction{Action: policy.Mark, RequestHeader: map[string]string{"X-Odd": "{rule}"}}},
	}
	p := must(policy.New(policy.Options{Rules: rules}))
	s := must(grpclimit.NewServer(must(grpclimit.NewPolicyDecider(grpclimit.PolicyOptions{Policy: p, Store: must(memory.New(memory.Options{}))})), grpclimit.ServerOptions{}))
	decided := func(ctx context.Context) (got metadata.MD) {
		_, err := s.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: create}, func(ctx context.Context, _ any) (any, error) {
			got, _ = metadata.FromIncomingContext(ctx)
			return nil, nil
		})
		want(t, err, codes.OK)
		return got
	}
	for _, name := range []string{"sluice-marked", "sluice-degraded", "x-odd"} {
		got := decided(metadata.NewIncomingContext(t.Context(), metadata.Pairs(name, "me", "x-other", "stays")))
		if len(got) != 1 {
			t.Errorf("with a forged %s, the metadata is %v", name, got)
		}
	}
	decided(t.Context())
	if got := decided(t.Context()); !slices.Equal(got["sluice-degraded"], []string{"slow"}) || !slices.Equal(got["x-odd"], []string{"odd"}) {
		t.Errorf("without metadata before, it is %v", got)
	}
}

// One policy applies to a call, also if another one comes in force while the call is decided: no forged mark passes by then.
func TestOnePolicyAppliesToACall(t *testing.T) {
	var got metadata.MD
	s := &service{create: func(ctx context.Context, in *text) (*text, error) {
		got, _ = metadata.FromIncomingContext(ctx)
		return in, nil
	}}
	rule := policy.Rule{Name: "odd", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(1)}}
	none := must(policy.New(policy.Options{Rules: []policy.Rule{rule}}))
	rule.WhenLimited = policy.LimitedAction{Action: policy.Mark, RequestHeader: map[string]string{"X-Odd": "{rule}"}}
	var d *grpclimit.Decider
	d = must(grpclimit.NewPolicyDecider(grpclimit.PolicyOptions{
		Policy: must(policy.New(policy.Options{Rules: []policy.Rule{rule}})), Store: must(memory.New(memory.Options{})),
		Cost: func(*grpclimit.Call) int64 {
			if err := d.SetPolicy(none); err != nil {
				t.Error(err)
			}
			return 1
		},
	}))
	conn := serve(t, s, limited(t, d, grpclimit.ServerOptions{}))
	want(t, call(with("x-odd", "forged"), conn), codes.OK)
	if got["x-odd"] != nil {
		t.Errorf("the metadata is %v", got)
	}
}

// A function that returns zero takes nothing.
func TestCostOfZero(t *testing.T) {
	d := must(grpclimit.NewPolicyDecider(grpclimit.PolicyOptions{
		Policy: must(policy.New(policy.Options{Rules: []policy.Rule{{Name: "r", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(1)}}}})),
		Store:  must(memory.New(memory.Options{})), Cost: func(c *grpclimit.Call) int64 { return int64(len(c.Message.(*text).Value)) },
	}))
	conn := serve(t, &service{}, limited(t, d, grpclimit.ServerOptions{}))
	for _, c := range []struct {
		message string
		code    codes.Code
	}{{"", codes.OK}, {"", codes.OK}, {"a", codes.OK}, {"a", codes.ResourceExhausted}, {"", codes.OK}} {
		want(t, conn.Invoke(t.Context(), create, wrapperspb.String(c.message), new(text)), c.code)
	}
}

// Rules in shadow decide, and let calls pass.
func TestShadowAndBan(t *testing.T) {
	var verdicts []string
	p := must(policy.New(policy.Options{Rules: []policy.Rule{
		{Name: "shadow", Shadow: true, Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(1)}},
		{
			Name: "ban", Key: []policy.Part{policy.Header("x-user")}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(2)})},
			Ban: &sluice.Ban{After: 2, Within: time.Hour, For: 48 * time.Hour},
		},
	}}))
	d := must(grpclimit.NewPolicyDecider(grpclimit.PolicyOptions{Policy: p, Store: must(memory.New(memory.Options{}))}))
	conn := serve(t, &service{}, limited(t, d, grpclimit.ServerOptions{
		OnVerdict: func(_ *grpclimit.Call, v *policy.Verdict, _ time.Duration) {
			verdicts = append(verdicts, v.Reason.String())
		},
	}))
	var err error
	for range 5 {
		err = call(with("x-user", "a"), conn)
	}
	want(t, err, codes.ResourceExhausted)
	if !strings.HasPrefix(status.Convert(err).Message(), "too many denied calls: ban") {
		t.Errorf("the message is %q", status.Convert(err).Message())
	}
	if wait, _ := grpclimit.RetryDelay(err); wait < 47*time.Hour {
		t.Errorf("the ban lasts %v", wait)
	}
	want(t, call(with("x-user", "b"), conn), codes.OK)
	if len(verdicts) != 6 {
		t.Errorf("verdicts: %v", verdicts)
	}
}

// failing is a store that cannot decide.
type failing struct{ sluice.Store }

var errStore = errors.New("the store is away")

func (failing) Decide(context.Context, sluice.Request) (sluice.Decision, error) {
	return sluice.Decision{}, errStore
}

func TestOnStoreError(t *testing.T) {
	for fallback, code := range map[sluice.Fallback]codes.Code{sluice.FallbackDefault: codes.OK, sluice.FallbackAllow: codes.OK, sluice.FallbackDeny: codes.Unavailable} {
		var reported error
		d := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
			Store: failing{}, Limits: []*sluice.Limit{perDay(1)}, Key: []policy.Part{policy.Constant("all")}, OnStoreError: fallback,
		}))
		conn := serve(t, &service{}, limited(t, d, grpclimit.ServerOptions{OnError: func(_ *grpclimit.Call, err error) { reported = err }}))
		err := call(t.Context(), conn)
		want(t, err, code)
		if !errors.Is(reported, errStore) {
			t.Errorf("%v: the error %v was reported", fallback, reported)
		}
		if wait, _ := grpclimit.RetryDelay(err); code != codes.OK && wait != time.Second {
			t.Errorf("the wait is %v", wait)
		}
		if strings.Contains(status.Convert(err).Message(), "away") {
			t.Error("the status has the store's error")
		}
	}
}

// Options of the server that no other test needs.
func TestServerUsesItsOptions(t *testing.T) {
	d := keyed(sluice.TokenBucket{Rate: sluice.PerDay(1)})
	var rest int64
	s := &service{create: func(ctx context.Context, in *text) (*text, error) {
		v, ok := policy.FromContext(ctx)
		if ok {
			rest = v.Tightest.Remaining
		}
		return in, nil
	}}
	own := status.Error(codes.Aborted, "mine")
	conn := serve(t, s, limited(t, d, grpclimit.ServerOptions{
		Context: true, Headers: httplimit.HeaderOptions{Profile: httplimit.ProfileNone, Jitter: time.Hour},
		OnDenied: func(_ *grpclimit.Call, v *policy.Verdict) error { return own },
	}))
	rest = -1
	var header metadata.MD
	want(t, call(t.Context(), conn, grpc.Header(&header)), codes.OK)
	if rest != 0 || header["ratelimit"] != nil {
		t.Errorf("%d remain, and the header is %v", rest, header)
	}
	want(t, call(t.Context(), conn), codes.Aborted)

	shared := must(gate.New(d.Store(), gate.Options{}))
	server := must(grpclimit.NewServer(d, grpclimit.ServerOptions{Gate: shared}))
	if server.Gate() != shared {
		t.Error("the server has another gate")
	}
	for _, o := range []grpclimit.ServerOptions{
		{Gate: shared, MaxDelay: 1},
		{Gate: shared, MaxWaiting: 1},
		{Gate: shared, Counts: func(codes.Code) bool { return true }},
		{MaxWaiting: -1},
		{Headers: httplimit.HeaderOptions{Jitter: -1}},
	} {
		if _, err := grpclimit.NewServer(d, o); err == nil || !strings.HasPrefix(err.Error(), "grpclimit: ServerOptions.") {
			t.Errorf("options %+v should be refused by field: %v", o, err)
		}
	}
	if _, err := grpclimit.NewServer(nil, grpclimit.ServerOptions{}); err == nil {
		t.Error("a server without a decider was made")
	}
}
