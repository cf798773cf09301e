package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// A concurrency limit holds its lease while a call or stream lasts, whatever ends it.
func TestLeasesLastAsLongAsCalls(t *testing.T) {
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
	if say(ctx, "hang") == nil {
		t.Error("a call that hangs ends well")
	}
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
func TestOnlySomeCodesCount(t *testing.T) {
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
	started := make(chan struct{})
	conn := serve(t, &service{create: func(ctx context.Context, in *text) (*text, error) {
		if in.Value == "hang" {
			started <- struct{}{}
			<-ctx.Done()
		}
		return in, ctx.Err()
	}}, limited(t, ruled(rule), grpclimit.ServerOptions{}))
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-started
			cancel()
		}()
		want(t, conn.Invoke(ctx, create, wrapperspb.String("hang"), new(text)), codes.Canceled)
	}
	for range 9 { // a charge that were given back would come back by now
		want(t, call(t.Context(), conn), codes.ResourceExhausted)
	}
}

// A handler reports the real cost of a call in its header or trailer. The last one counts.
func TestCostInMetadata(t *testing.T) {
	rule := policy.Rule{
		Name: "tokens", Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(10)},
		Cost: policy.Cost{Source: policy.CostResponseHeader, Header: "X-Tokens", Estimate: 3},
	}
	d := ruled(rule)
	conn := serve(t, &service{
		create: func(ctx context.Context, in *text) (*text, error) {
			switch in.Value {
			case "header":
				return in, grpc.SetHeader(ctx, metadata.Pairs("X-Tokens", "0"))
			case "sent":
				return in, grpc.SendHeader(ctx, metadata.Pairs("x-tokens", "0"))
			}
			return in, grpc.SetTrailer(ctx, metadata.Pairs("x-tokens", "1"))
		},
		chat: func(stream grpc.BidiStreamingServer[text, text]) error {
			stream.SetTrailer(metadata.Pairs("x-tokens", "7"))
			if err := stream.SetHeader(metadata.Pairs("x-tokens", "5")); err != nil {
				return err
			}
			return stream.SendHeader(metadata.Pairs("x-tokens", "6"))
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
	for _, word := range []string{"header", "sent", "sent"} {
		want(t, conn.Invoke(t.Context(), create, wrapperspb.String(word), new(text)), codes.OK)
	}
	_, err := open(t.Context(), conn).Recv()
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	eventually(t, "the stream's cost is settled", func() bool { return status.Code(call(t.Context(), conn)) == codes.ResourceExhausted })
}

// unsettled is a store that cannot give anything back.
type unsettled struct{ sluice.Store }

func (unsettled) Settle(context.Context, sluice.Charge, int64) error { return errStore }
func (unsettled) Cancel(context.Context, sluice.Charge) error        { return errStore }

// Errors at the end of a call come with the call.
func TestErrorsHaveTheirCall(t *testing.T) {
	errs := make(chan string, 9)
	d := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store:  unsettled{must(memory.New(memory.Options{}))},
		Limits: []*sluice.Limit{sluice.MustLimit("l", sluice.LeakyBucket{Rate: sluice.PerHour(1), Queue: 9})}, Key: []policy.Part{policy.Constant("all")},
	}))
	s := must(grpclimit.NewServer(d, grpclimit.ServerOptions{
		MaxDelay: 9 * time.Hour, Counts: func(codes.Code) bool { return false },
		OnError: func(c *grpclimit.Call, err error) { errs <- c.Method + ": " + err.Error() },
	}))
	conn := serve(t, &service{}, s.Options())
	want(t, call(t.Context(), conn), codes.OK) // settled
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "the call waits", func() bool { return s.Waiting() == 1 })
		cancel()
	}()
	want(t, call(ctx, conn), codes.Canceled) // canceled
	for range 2 {
		if text := <-errs; text != create+": "+errStore.Error() {
			t.Errorf("the error at the end of the call is %s", text)
		}
	}
}

// A handler's error of a context has the code that grpc-go gives it.
func TestCodesOfContexts(t *testing.T) {
	got := make(chan codes.Code, 1)
	o := grpclimit.ServerOptions{Counts: func(c codes.Code) bool {
		got <- c
		return true
	}}
	conn := serve(t, &service{create: func(context.Context, *text) (*text, error) { return nil, context.DeadlineExceeded }},
		limited(t, keyed(sluice.TokenBucket{Rate: sluice.PerDay(1)}), o))
	want(t, call(t.Context(), conn), codes.DeadlineExceeded)
	if c := <-got; c != codes.DeadlineExceeded {
		t.Errorf("the code is %v", c)
	}
}
