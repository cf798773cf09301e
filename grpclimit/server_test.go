package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
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

func yield() { runtime.Gosched() }

func TestPerClient(t *testing.T) {
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

// A denial has all details, and nothing of the key's value.
func TestDenial(t *testing.T) {
	d := ruled(policy.Rule{Name: "orders", Match: policy.Match{Paths: []string{create}}, Key: []policy.Part{policy.Header("x-user")}, Limits: []*sluice.Limit{
		perDay(1), sluice.MustLimit("hourly", sluice.FixedWindow{Rate: sluice.PerHour(9)}),
	}})
	conn := serve(t, &service{}, limited(t, d, grpclimit.ServerOptions{ErrorDomain: "shop.example.com"}))
	ctx := with("x-user", "alice-secret")
	var header, trailer metadata.MD
	want(t, call(ctx, conn, grpc.Header(&header)), codes.OK)
	if got := header["ratelimit"]; !slices.Equal(got, []string{`"orders";r=0;t=86400`}) {
		t.Errorf("ratelimit is %q", got)
	}
	if got := header["ratelimit-policy"]; !slices.Equal(got, []string{`"orders";q=1;w=86400, "orders/hourly";q=9;w=3600`}) {
		t.Errorf("ratelimit-policy is %q", got)
	}
	header = nil
	err := call(ctx, conn, grpc.Header(&header), grpc.Trailer(&trailer))
	want(t, err, codes.ResourceExhausted)
	if len(header) > 0 && header["ratelimit"] != nil {
		t.Errorf("a denial has the header %v, so that no retry policy repeats it", header)
	}
	for name, value := range map[string]string{"grpc-retry-pushback-ms": "-1", "retry-after": "86400", "ratelimit": `"orders";r=0;t=86400`} {
		if got := trailer[name]; !slices.Equal(got, []string{value}) {
			t.Errorf("the trailer %s is %q, want %q", name, got, value)
		}
	}
	wait, ok := grpclimit.RetryDelay(err)
	if !ok || wait <= 23*time.Hour || wait > 24*time.Hour {
		t.Errorf("RetryDelay is %v, %v", wait, ok)
	}
	quota := detail[*errdetails.QuotaFailure](err)
	if len(quota.GetViolations()) != 1 {
		t.Fatalf("violations are %v", quota)
	}
	v := quota.Violations[0]
	if v.Subject != "header:X-User" || v.QuotaId != "orders" || v.QuotaValue != 1 || v.QuotaMetric != "requests" || v.ApiService != "shop.v1.Orders" || v.Description != "token_bucket(1/d)" {
		t.Errorf("the violation is %v", v)
	}
	info := detail[*errdetails.ErrorInfo](err)
	if info.GetReason() != "LIMITED" || info.GetDomain() != "shop.example.com" || info.GetMetadata()["rule"] != "orders" {
		t.Errorf("ErrorInfo is %v", info)
	}
	if text := status.Convert(err).Proto().String(); strings.Contains(text, "alice") {
		t.Errorf("the status has the key: %s", text)
	}
	if _, ok := grpclimit.RetryDelay(nil); ok {
		t.Error("no error has a wait")
	}
	if _, ok := grpclimit.RetryDelay(io.EOF); ok {
		t.Error("an error without a status has a wait")
	}
}

// Codes of denials, and which of them have a wait.
func TestCodes(t *testing.T) {
	key := []policy.Part{policy.Global()}
	for _, c := range []struct {
		name  string
		rule  policy.Rule
		code  codes.Code
		waits bool
		text  string
	}{
		{"a limit", policy.Rule{Key: key, Limits: []*sluice.Limit{perDay(1)}, Cost: policy.Cost{Units: 1}, Floor: 0}, codes.ResourceExhausted, true, "quota exceeded: r"},
		{"always", policy.Rule{Always: true}, codes.ResourceExhausted, false, "quota exceeded"},
		{"a status", policy.Rule{Always: true, WhenLimited: policy.LimitedAction{Status: 403, Body: "{rule} is closed"}}, codes.PermissionDenied, false, "r is closed"},
		{"missing", policy.Rule{Key: []policy.Part{policy.Header("x-user").IfMissing(policy.MissingDeny)}, Limits: []*sluice.Limit{perDay(1)}}, codes.InvalidArgument, false, "the call lacks x-user"},
		{"a list", policy.Rule{Key: []policy.Part{policy.Header("content-type")}, Limits: []*sluice.Limit{perDay(9)}, DenyKeys: [][]string{{"application/grpc"}}}, codes.PermissionDenied, false, "calls of this client are not let pass"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.rule.Name = "r"
			conn := serve(t, &service{}, limited(t, ruled(c.rule), grpclimit.ServerOptions{}))
			_ = call(t.Context(), conn)
			var trailer metadata.MD
			err := call(t.Context(), conn, grpc.Trailer(&trailer))
			want(t, err, c.code)
			if _, waits := grpclimit.RetryDelay(err); waits != c.waits {
				t.Errorf("RetryInfo is %v", retryInfo(err))
			}
			if got := trailer["grpc-retry-pushback-ms"]; !slices.Equal(got, []string{"-1"}) {
				t.Errorf("the pushback is %q", got)
			}
			if text := status.Convert(err).Message(); !strings.HasPrefix(text, c.text) {
				t.Errorf("the message is %q", text)
			}
		})
	}
	t.Run("never", func(t *testing.T) {
		d := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
			Store: must(memory.New(memory.Options{})), Limits: []*sluice.Limit{perDay(1)}, Key: []grpclimit.Part{grpclimit.Method()},
			Cost: func(c *grpclimit.Call) int64 { return int64(len(c.Message.(*text).Value)) },
		}))
		err := call(t.Context(), serve(t, &service{}, limited(t, d, grpclimit.ServerOptions{})))
		want(t, err, codes.ResourceExhausted)
		if retryInfo(err) != nil {
			t.Errorf("a call that never fits has %v", retryInfo(err))
		}
	})
	t.Run("negative cost", func(t *testing.T) {
		d := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
			Store: must(memory.New(memory.Options{})), Limits: []*sluice.Limit{perDay(1)}, Key: []grpclimit.Part{grpclimit.Service()},
			Cost: func(*grpclimit.Call) int64 { return -1 },
		}))
		want(t, call(t.Context(), serve(t, &service{}, limited(t, d, grpclimit.ServerOptions{}))), codes.InvalidArgument)
	})
	t.Run("no rule", func(t *testing.T) {
		d := must(grpclimit.NewPolicyDecider(grpclimit.PolicyOptions{
			Store: must(memory.New(memory.Options{})), Policy: must(policy.New(policy.Options{Default: policy.Deny})),
		}))
		want(t, call(t.Context(), serve(t, &service{}, limited(t, d, grpclimit.ServerOptions{}))), codes.PermissionDenied)
	})
}

// A retry policy of a client repeats a denied call at the right time, because of the pushback.
func TestRetryPolicy(t *testing.T) {
	var calls, denied int
	s := limited(t, keyed(sluice.TokenBucket{Rate: sluice.PerSecond(20), Burst: 1}), grpclimit.ServerOptions{
		OnVerdict: func(_ *grpclimit.Call, v *policy.Verdict, _ time.Duration) {
			if calls++; !v.Allowed() {
				denied++
			}
		},
	})
	conn := serve(t, &service{}, s, grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 3, "initialBackoff": "60s", "maxBackoff": "60s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 3 {
		want(t, call(ctx, conn), codes.OK) // and not after 60 s
	}
	if calls != 5 || denied != 2 {
		t.Errorf("%d calls, of which %d were denied", calls, denied)
	}
}

func TestPushbackOptions(t *testing.T) {
	for _, c := range []struct {
		most time.Duration
		want []string
	}{{0, []string{"-1"}}, {25 * time.Hour, nil}, {-1, nil}} {
		conn := serve(t, &service{}, limited(t, keyed(sluice.TokenBucket{Rate: sluice.PerDay(1)}), grpclimit.ServerOptions{MaxPushback: c.most}))
		_ = call(t.Context(), conn)
		var trailer metadata.MD
		want(t, call(t.Context(), conn, grpc.Trailer(&trailer)), codes.ResourceExhausted)
		got := trailer["grpc-retry-pushback-ms"]
		if c.most > 0 {
			if len(got) != 1 || len(got[0]) != len("86400000") {
				t.Errorf("MaxPushback %v: %q", c.most, got)
			}
		} else if !slices.Equal(got, c.want) {
			t.Errorf("MaxPushback %v: %q, want %q", c.most, got, c.want)
		}
	}
}

// Calls wait in a queue. A call whose deadline is too near is refused at once, with the wait.
func TestWait(t *testing.T) {
	conn := serve(t, &service{}, limited(t, keyed(sluice.LeakyBucket{Rate: sluice.PerSecond(20), Queue: 4}), grpclimit.ServerOptions{}))
	began := time.Now()
	for range 3 {
		want(t, call(t.Context(), conn), codes.OK)
	}
	if took := time.Since(began); took < 95*time.Millisecond {
		t.Errorf("three calls took %v at 20/s", took)
	}

	conn = serve(t, &service{}, limited(t, keyed(sluice.LeakyBucket{Rate: sluice.PerHour(2), Queue: 4}), grpclimit.ServerOptions{MaxDelay: 2 * time.Hour}))
	want(t, call(t.Context(), conn), codes.OK)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	began = time.Now()
	err := call(ctx, conn)
	want(t, err, codes.ResourceExhausted)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the call was refused after %v", took)
	}
	if wait, _ := grpclimit.RetryDelay(err); wait < 29*time.Minute || wait > 30*time.Minute {
		t.Errorf("the wait is %v", wait)
	}
}

// A call whose client leaves while it waits is not handled, and its units go back.
func TestCanceledWhileWaiting(t *testing.T) {
	var handled int
	s := must(grpclimit.NewServer(keyed(sluice.LeakyBucket{Rate: sluice.PerHour(2), Queue: 4}), grpclimit.ServerOptions{MaxDelay: 2 * time.Hour}))
	conn := serve(t, &service{create: func(_ context.Context, in *text) (*text, error) {
		handled++
		return in, nil
	}}, s.Options())
	want(t, call(t.Context(), conn), codes.OK)
	for range 8 { // more than the queue holds, so the room comes back
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- call(ctx, conn) }()
		eventually(t, "the call waits", func() bool { return s.Waiting() == 1 })
		cancel()
		want(t, <-done, codes.Canceled)
		eventually(t, "the call has left the queue", func() bool { return s.Waiting() == 0 })
	}
	if handled != 1 {
		t.Errorf("%d calls were handled", handled)
	}
}

// Waiting calls are bounded.
func TestQueueBound(t *testing.T) {
	s := must(grpclimit.NewServer(keyed(sluice.LeakyBucket{Rate: sluice.PerHour(2), Queue: 9}), grpclimit.ServerOptions{MaxDelay: 9 * time.Hour, MaxWaiting: 1}))
	conn := serve(t, &service{}, s.Options())
	want(t, call(t.Context(), conn), codes.OK)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call(ctx, conn) }()
	eventually(t, "a call waits", func() bool { return s.Waiting() == 1 })
	err := call(t.Context(), conn)
	want(t, err, codes.Unavailable)
	cancel()
	<-done
}

// A concurrency limit holds its lease while a call or stream lasts, whatever ends it.
func TestLeases(t *testing.T) {
	d := keyed(sluice.Concurrency{Max: 1})
	release := make(chan struct{})
	s := &service{
		create: func(ctx context.Context, in *text) (*text, error) {
			switch in.Value {
			case "panic":
				panic("a bug")
			case "exit":
				return nil, errors.New("failed")
			case "hang":
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return in, nil
		},
		chat: func(stream grpc.BidiStreamingServer[text, text]) error {
			select {
			case <-release:
			case <-stream.Context().Done():
			}
			return nil
		},
	}
	recovered := grpc.ChainUnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
		defer func() {
			if recover() != nil {
				err = status.Error(codes.Internal, "panic")
			}
		}()
		return handler(ctx, r)
	})
	conn := serve(t, s, append([]grpc.ServerOption{recovered}, limited(t, d, grpclimit.ServerOptions{})...))
	say := func(ctx context.Context, word string) error {
		return conn.Invoke(ctx, create, wrapperspb.String(word), new(text))
	}
	want(t, say(t.Context(), "panic"), codes.Internal)
	want(t, say(t.Context(), "exit"), codes.Unknown)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	want(t, say(ctx, "hang"), codes.DeadlineExceeded)
	eventually(t, "the lease is released", func() bool { return say(t.Context(), "one") == nil })

	// A stream that never sends holds its lease, and only one stream is open.
	streaming, leave := context.WithCancel(t.Context())
	open(streaming, conn)
	eventually(t, "the stream has the lease", func() bool { return status.Code(say(t.Context(), "one")) == codes.ResourceExhausted })
	for range 20 {
		_, err := open(t.Context(), conn).Recv()
		want(t, err, codes.ResourceExhausted)
		if wait, _ := grpclimit.RetryDelay(err); wait != time.Second {
			t.Fatalf("the wait is %v", wait)
		}
	}
	leave()
	eventually(t, "the stream has released its lease", func() bool { return say(t.Context(), "one") == nil })
	close(release)
}

// Only results with some codes count.
func TestCounts(t *testing.T) {
	fails := codes.OK
	s := &service{create: func(_ context.Context, in *text) (*text, error) { return in, status.Error(fails, "") }}
	rule := policy.Rule{Name: "logins", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(2)}, CountStatus: []policy.StatusRange{policy.Status(401)}}
	for name, conn := range map[string]*grpc.ClientConn{
		"a rule": serve(t, s, limited(t, ruled(rule), grpclimit.ServerOptions{})),
		"a function": serve(t, s, limited(t, keyed(sluice.TokenBucket{Rate: sluice.PerDay(2)}), grpclimit.ServerOptions{
			Counts: func(c codes.Code) bool { return c == codes.Unauthenticated },
		})),
	} {
		t.Run(name, func(t *testing.T) {
			for _, code := range []codes.Code{codes.OK, codes.NotFound, codes.Unauthenticated, codes.OK, codes.PermissionDenied, codes.Unauthenticated} {
				fails = code
				want(t, call(t.Context(), conn), code)
			}
			want(t, call(t.Context(), conn), codes.ResourceExhausted)
		})
	}
}

// A client that leaves before the result cannot keep its failure from counting.
func TestLeavingCounts(t *testing.T) {
	rule := policy.Rule{Name: "logins", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(2)}, CountStatus: []policy.StatusRange{policy.Status(401)}}
	var ended sync.WaitGroup
	conn := serve(t, &service{create: func(ctx context.Context, _ *text) (*text, error) {
		defer ended.Done()
		<-ctx.Done()
		return nil, ctx.Err()
	}}, limited(t, ruled(rule), grpclimit.ServerOptions{}))
	ended.Add(2)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		want(t, call(ctx, conn), codes.DeadlineExceeded)
		cancel()
	}
	ended.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	want(t, call(ctx, conn), codes.ResourceExhausted)
}

// A handler reports the real cost of a call in its trailer.
func TestCostInTheTrailer(t *testing.T) {
	rule := policy.Rule{
		Name: "tokens", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(10)},
		Cost: policy.Cost{Source: policy.CostResponseHeader, Header: "X-Tokens", Estimate: 3},
	}
	d := ruled(rule)
	conn := serve(t, &service{
		create: func(ctx context.Context, in *text) (*text, error) {
			return in, grpc.SetTrailer(ctx, metadata.Pairs("x-tokens", "1"))
		},
		chat: func(stream grpc.BidiStreamingServer[text, text]) error {
			stream.SetTrailer(metadata.Pairs("x-tokens", "7"))
			return stream.SetHeader(metadata.Pairs("x-other", "1"))
		},
	}, limited(t, d, grpclimit.ServerOptions{}))
	remaining := func() string {
		var header metadata.MD
		want(t, call(t.Context(), conn, grpc.Header(&header)), codes.OK)
		return header["ratelimit"][0]
	}
	for _, r := range []string{`"tokens";r=7;t=86400`, `"tokens";r=6;t=86400`} {
		if got := remaining(); !strings.HasPrefix(got, r[:12]) {
			t.Errorf("ratelimit is %q, want %q", got, r)
		}
	}
	_, err := open(t.Context(), conn).Recv()
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	eventually(t, "the stream's cost is settled", func() bool { return status.Code(call(t.Context(), conn)) == codes.ResourceExhausted })
}

// Marks and degraded calls reach handlers as metadata, which clients cannot send.
func TestMarks(t *testing.T) {
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
	for fallback, code := range map[policy.Fallback]codes.Code{policy.FallbackDefault: codes.OK, policy.FallbackAllow: codes.OK, policy.FallbackDeny: codes.Unavailable} {
		var reported error
		d := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
			Store: failing{}, Limits: []*sluice.Limit{perDay(1)}, Key: []grpclimit.Part{grpclimit.Constant("all")}, OnStoreError: fallback,
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
func TestServerOptions(t *testing.T) {
	d := keyed(sluice.TokenBucket{Rate: sluice.PerDay(1)})
	var rest int64
	s := &service{create: func(ctx context.Context, in *text) (*text, error) {
		v, ok := grpclimit.FromContext(ctx)
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
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := grpclimit.NewServer(nil, grpclimit.ServerOptions{}); err == nil {
		t.Error("a server without a decider was made")
	}
}
