package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// Calls of a client wait until the rate permits them.
func TestCallsWaitForTheRate(t *testing.T) {
	conn := serve(t, &service{}, nil, must(grpclimit.AtRate("1/20ms"))...)
	began := time.Now()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := call(t.Context(), conn); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took < 55*time.Millisecond {
		t.Errorf("four calls took %v at 1/20ms", took)
	}
	if _, err := grpclimit.AtRate("fast"); err == nil || !strings.HasPrefix(err.Error(), "grpclimit: AtRate: ") {
		t.Error(err)
	}
}

// Calls wait for a window too, although it reserves nothing.
func TestClientWaitsForAWindow(t *testing.T) {
	var verdicts atomic.Int64
	conn := serve(t, &service{}, nil, dialed(t, keyed(sluice.SlidingLog{Rate: sluice.Per(2, 30*time.Millisecond)}), grpclimit.ClientOptions{
		OnVerdict: func(_ *grpclimit.Call, v *policy.Verdict, _ time.Duration) {
			if verdicts.Add(1); !v.Allowed() {
				t.Errorf("the verdict is %v", v)
			}
		},
	})...)
	began := time.Now()
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if err := call(t.Context(), conn); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took < 60*time.Millisecond || verdicts.Load() != 6 {
		t.Errorf("six calls took %v, with %d verdicts", took, verdicts.Load())
	}
}

// A call that cannot pass in time fails at once, and says when it could.
func TestCallsThatCannotPassFailAtOnce(t *testing.T) {
	for name, a := range map[string]sluice.Algorithm{
		"bucket": sluice.TokenBucket{Rate: sluice.PerHour(1)}, "window": sluice.SlidingLog{Rate: sluice.PerHour(1)}, "leases": sluice.Concurrency{Max: 1},
	} {
		for _, o := range []grpclimit.ClientOptions{{MaxDelay: -1}, {MaxDelay: 30 * time.Millisecond}, {}} {
			var served atomic.Int64
			hold := make(chan struct{})
			conn := serve(t, &service{create: func(_ context.Context, in *text) (*text, error) {
				if served.Add(1) == 1 && name == "leases" {
					<-hold
				}
				return in, nil
			}}, nil, dialed(t, keyed(a), o)...)
			var first sync.WaitGroup
			first.Go(func() { want(t, call(context.Background(), conn), codes.OK) })
			eventually(t, "the first call is served", func() bool { return served.Load() == 1 })
			if name != "leases" {
				first.Wait()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
			began := time.Now()
			err := call(ctx, conn)
			want(t, err, codes.ResourceExhausted)
			if took := time.Since(began); took > 600*time.Millisecond {
				t.Errorf("%s %+v: the call failed after %v", name, o, took)
			}
			if wait, ok := grpclimit.RetryDelay(err); !ok || name != "leases" && wait < 59*time.Minute {
				t.Errorf("%s %+v: the wait is %v", name, o, wait)
			}
			cancel()
			close(hold)
			first.Wait()
			if served.Load() != 1 {
				t.Errorf("%s %+v: %d calls reached the server", name, o, served.Load())
			}
		}
	}
}

// A waiting call ends with its context.
func TestClientIsCanceled(t *testing.T) {
	for name, a := range map[string]sluice.Algorithm{"bucket": sluice.TokenBucket{Rate: sluice.PerMinute(2), Burst: 1}, "window": sluice.SlidingLog{Rate: sluice.PerMinute(2), MinInterval: 20 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			conn := serve(t, &service{}, nil, dialed(t, keyed(a), grpclimit.ClientOptions{})...)
			want(t, call(t.Context(), conn), codes.OK)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			want(t, call(ctx, conn), codes.Canceled)
		})
	}
}

// The calls that wait are bounded, whatever they wait for.
func TestWaitingClientCallsAreBounded(t *testing.T) {
	for name, a := range map[string]sluice.Algorithm{"bucket": sluice.TokenBucket{Rate: sluice.PerMinute(2), Burst: 1}, "window": sluice.SlidingLog{Rate: sluice.PerMinute(2), MinInterval: 20 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			conn := serve(t, &service{}, nil, dialed(t, keyed(a), grpclimit.ClientOptions{MaxWaiting: 1, MaxDelay: time.Hour})...)
			want(t, call(t.Context(), conn), codes.OK)
			ctx, cancel := context.WithCancel(t.Context())
			ends := make(chan error, 2)
			for range 2 {
				go func() { ends <- call(ctx, conn) }()
			}
			if code := status.Code(<-ends); code != codes.Unavailable && code != codes.ResourceExhausted {
				t.Errorf("the second call that waits ends with %v", code)
			}
			cancel()
			want(t, <-ends, codes.Canceled)
		})
	}
}

// A stream holds its lease until it ends, in each way in which a stream can end.
func TestClientLeases(t *testing.T) {
	conn := serve(t, &service{}, nil, dialed(t, keyed(sluice.Concurrency{Max: 1}), grpclimit.ClientOptions{MaxDelay: -1})...)
	free := func() bool { return call(t.Context(), conn) == nil }
	for name, end := range map[string]func(stream *grpc.GenericClientStream[text, text], cancel func()){
		"canceled": func(_ *grpc.GenericClientStream[text, text], cancel func()) { cancel() },
		"complete": func(stream *grpc.GenericClientStream[text, text], _ func()) {
			_ = stream.CloseSend()
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		},
		"too large": func(stream *grpc.GenericClientStream[text, text], _ func()) {
			if err := stream.Send(wrapperspb.String(strings.Repeat("x", 5<<20))); err != nil {
				t.Error(err)
			}
			if _, err := stream.Recv(); err == nil {
				t.Error("the server takes a large message")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream := open(ctx, conn)
			if free() {
				t.Error("an open stream holds no lease")
			}
			end(stream, cancel)
			eventually(t, "the lease is released", free)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, chat); err == nil {
		t.Error("a stream begins after its end")
	}
	eventually(t, "the lease is released", free)
}

// A message that fails ends the stream, and says why to all that use it.
func TestMessagesOfAClient(t *testing.T) {
	for name, o := range map[string]grpclimit.ClientOptions{
		"sent":     {MaxDelay: -1, Sent: keyed(sluice.TokenBucket{Rate: sluice.PerDay(3)})},
		"received": {MaxDelay: -1, Received: keyed(sluice.TokenBucket{Rate: sluice.PerDay(3)})},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			conn := serve(t, &service{chat: func(stream grpc.BidiStreamingServer[text, text]) error {
				defer close(ended)
				return echo(stream)
			}}, nil, dialed(t, unlimited(), o)...)
			stream := open(t.Context(), conn)
			n, err := exchange(stream, 9)
			want(t, err, codes.ResourceExhausted)
			if n != 3 {
				t.Errorf("%d messages came back", n)
			}
			want(t, stream.Send(wrapperspb.String("m")), codes.ResourceExhausted)
			_, err = stream.Recv()
			want(t, err, codes.ResourceExhausted)
			<-ended
		})
	}
}

// Keys of a client: the target, metadata that it sends, and the method.
func TestClientKeysComeFromTheCall(t *testing.T) {
	d := keyed(sluice.TokenBucket{Rate: sluice.PerDay(1)}, grpclimit.Target(), grpclimit.Metadata("X-User"), grpclimit.Method())
	o := dialed(t, d, grpclimit.ClientOptions{MaxDelay: -1})
	one, two := serve(t, &service{}, nil, o...), serveTCP(t, &service{}, nil, o...)
	for _, conn := range []*grpc.ClientConn{one, two} {
		for _, ctx := range []context.Context{with("x-user", "a"), with("x-user", "b"), t.Context()} {
			want(t, call(ctx, conn), codes.OK)
			want(t, call(ctx, conn), codes.ResourceExhausted)
		}
	}
	want(t, call(with("x-user", "a", "x-user", "b"), one), codes.InvalidArgument)
}

// Calls that do not count give their units back.
func TestCallsThatDoNotCountGiveUnitsBack(t *testing.T) {
	fails := codes.Unavailable
	conn := serve(t, &service{create: func(_ context.Context, in *text) (*text, error) { return in, status.Error(fails, "") }}, nil,
		dialed(t, keyed(sluice.TokenBucket{Rate: sluice.PerDay(1)}), grpclimit.ClientOptions{MaxDelay: -1, Counts: func(c codes.Code) bool { return c == codes.OK }})...)
	want(t, call(t.Context(), conn), codes.Unavailable)
	want(t, call(t.Context(), conn), codes.Unavailable)
	fails = codes.OK
	want(t, call(t.Context(), conn), codes.OK)
	want(t, call(t.Context(), conn), codes.ResourceExhausted)
}

// Options of the client that no other test needs.
func TestClientUsesItsOptions(t *testing.T) {
	if _, err := grpclimit.NewClient(nil, grpclimit.ClientOptions{}); err == nil {
		t.Error("a client without a decider was made")
	}
	if _, err := grpclimit.NewClient(unlimited(), grpclimit.ClientOptions{MaxWaiting: -1}); err == nil || !strings.HasPrefix(err.Error(), "grpclimit: ClientOptions.MaxWaiting") {
		t.Error(err)
	}
	var reported error
	own := status.Error(codes.Aborted, "mine")
	d := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: failing{}, Limits: []*sluice.Limit{perDay(1)}, Key: []policy.Part{policy.Constant("all")}, OnStoreError: sluice.FallbackDeny,
	}))
	c := must(grpclimit.NewClient(d, grpclimit.ClientOptions{
		OnError:  func(_ *grpclimit.Call, err error) { reported = err },
		OnDenied: func(*grpclimit.Call, *policy.Verdict) error { return own },
	}))
	err := c.Unary(t.Context(), create, nil, nil, nil, nil)
	if !errors.Is(err, own) || !errors.Is(reported, errStore) {
		t.Errorf("%v, and %v was reported", err, reported)
	}
	// The rule's own wait is shorter than the client's.
	d = must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: must(memory.New(memory.Options{})), Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerHour(60), Burst: 1})},
		Key: []policy.Part{policy.Constant("all")}, MaxWait: sluice.NoWait,
	}))
	conn := serve(t, &service{}, nil, dialed(t, d, grpclimit.ClientOptions{})...)
	want(t, call(t.Context(), conn), codes.OK)
	want(t, call(t.Context(), conn), codes.ResourceExhausted)
}

// The MaxWait of a rule or decider bounds all waits of a call, also for a window.
func TestClientMaxWait(t *testing.T) {
	rule := policy.Rule{Name: "r", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.SlidingLog{Rate: sluice.Per(1, 20*time.Second)})}}
	bounded := rule
	bounded.MaxWait = 10 * time.Second
	for _, o := range []grpclimit.PolicyOptions{
		{Policy: must(policy.New(policy.Options{Rules: []policy.Rule{bounded}}))},
		{Policy: must(policy.New(policy.Options{Rules: []policy.Rule{rule}})), MaxWait: 10 * time.Second},
		{Policy: must(policy.New(policy.Options{Rules: []policy.Rule{rule}})), MaxWait: sluice.NoWait},
	} {
		o.Store = must(memory.New(memory.Options{}))
		conn := serve(t, &service{}, nil, dialed(t, must(grpclimit.NewPolicyDecider(o)), grpclimit.ClientOptions{})...)
		want(t, call(t.Context(), conn), codes.OK)
		began := time.Now()
		if want(t, call(t.Context(), conn), codes.ResourceExhausted); time.Since(began) > 5*time.Second {
			t.Errorf("the call waited for %v", time.Since(began))
		}
	}
}
