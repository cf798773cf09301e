package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// unlimited is a decider that lets all calls pass.
func unlimited() *grpclimit.Decider { return ruled() }

// exchange sends n messages one by one, and returns how many came back and the error after them.
func exchange(stream *grpc.GenericClientStream[text, text], n int) (int, error) {
	for i := range n {
		if err := stream.Send(wrapperspb.String("m")); err != nil && !errors.Is(err, io.EOF) {
			return i, err
		}
		if _, err := stream.Recv(); err != nil {
			return i, err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return n, err
	}
	_, err := stream.Recv()
	return n, err
}

// A denied message ends its stream with the status, whatever the handler makes of the error.
func TestMessagesOfAServer(t *testing.T) {
	for name, o := range map[string]grpclimit.ServerOptions{
		"received": {Received: keyed(sluice.TokenBucket{Rate: sluice.PerDay(3)})},
		"sent":     {Sent: keyed(sluice.TokenBucket{Rate: sluice.PerDay(3)})},
	} {
		t.Run(name, func(t *testing.T) {
			contextEnded := make(chan struct{}, 9)
			conn := serve(t, &service{chat: func(stream grpc.BidiStreamingServer[text, text]) error {
				_ = echo(stream)
				if _, err := stream.Recv(); err == nil {
					t.Error("a stream that was ended goes on")
				}
				<-stream.Context().Done()
				contextEnded <- struct{}{}
				return nil
			}}, limited(t, unlimited(), o))
			n, err := exchange(open(t.Context(), conn), 9)
			want(t, err, codes.ResourceExhausted)
			if n != 3 {
				t.Errorf("%d messages came back", n)
			}
			if wait, ok := grpclimit.RetryDelay(err); !ok || wait < 7*time.Hour {
				t.Errorf("the wait is %v", wait)
			}
			<-contextEnded
			want(t, call(t.Context(), conn), codes.OK) // unary calls have no messages of a stream
		})
	}
}

// Messages of a stream that keeps the rate pass, and a stream that is faster waits.
func TestMessagesWait(t *testing.T) {
	slow := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: must(memory.New(memory.Options{})), Limits: []*sluice.Limit{sluice.MustLimit("m", sluice.TokenBucket{Rate: sluice.PerSecond(50), Burst: 1})},
		Key: []policy.Part{policy.Constant("all")}, MaxWait: time.Minute,
	}))
	fast := keyed(sluice.TokenBucket{Rate: sluice.PerSecond(1000)})
	for name, conn := range map[string]*grpc.ClientConn{
		"received by a server": serve(t, &service{}, limited(t, unlimited(), grpclimit.ServerOptions{Received: slow, Sent: fast})),
		"sent by a server":     serve(t, &service{}, limited(t, unlimited(), grpclimit.ServerOptions{Received: fast, Sent: slow})),
		"sent by a client":     serve(t, &service{}, nil, dialed(t, unlimited(), grpclimit.ClientOptions{Sent: slow, Received: fast})...),
		"received by a client": serve(t, &service{}, nil, dialed(t, unlimited(), grpclimit.ClientOptions{Received: slow, Sent: fast})...),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			n, err := exchange(open(t.Context(), conn), 4)
			if !errors.Is(err, io.EOF) {
				t.Fatalf("%d messages came back, then %v", n, err)
			}
			if took := time.Since(began); took < 55*time.Millisecond {
				t.Errorf("four messages took %v at 50/s", took)
			}
		})
	}
}

// A message costs what a function finds in it, and rules find the method of its stream.
func TestMessagesByAPolicy(t *testing.T) {
	d := must(grpclimit.NewPolicyDecider(grpclimit.PolicyOptions{
		Store: must(memory.New(memory.Options{})),
		Policy: must(policy.New(policy.Options{Rules: []policy.Rule{{
			Name: "letters", Match: policy.Match{Paths: []string{chat}}, Key: []policy.Part{policy.Header("x-user")}, Limits: []*sluice.Limit{perDay(9)},
		}}})),
		Cost: func(c *grpclimit.Call) int64 { return int64(len(c.Message.(*text).Value)) },
	}))
	conn := serve(t, &service{}, limited(t, unlimited(), grpclimit.ServerOptions{Received: d}))
	for _, user := range []string{"a", "b"} {
		stream := open(with("x-user", user), conn)
		for i, word := range []string{"four", "more", "too many"} {
			if err := stream.Send(wrapperspb.String(word)); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); (err != nil) != (i == 2) {
				t.Errorf("%s: message %d: %v", user, i, err)
			}
		}
	}
}

// A client that leaves while its message waits ends the wait.
func TestMessagesOfAClientThatLeaves(t *testing.T) {
	d := must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: must(memory.New(memory.Options{})), Limits: []*sluice.Limit{sluice.MustLimit("m", sluice.LeakyBucket{Rate: sluice.PerHour(1), Queue: 9})},
		Key: []policy.Part{policy.Constant("all")},
	}))
	handled := make(chan error, 1)
	waiting := make(chan struct{}, 9)
	conn := serve(t, &service{chat: func(stream grpc.BidiStreamingServer[text, text]) error {
		_, _ = stream.Recv()
		waiting <- struct{}{}
		_, err := stream.Recv()
		handled <- err
		return nil
	}}, limited(t, unlimited(), grpclimit.ServerOptions{Received: d, MaxDelay: 99 * time.Hour}))
	ctx, cancel := context.WithCancel(t.Context())
	stream := open(ctx, conn)
	for range 2 {
		if err := stream.Send(wrapperspb.String("m")); err != nil {
			t.Fatal(err)
		}
	}
	<-waiting
	cancel()
	want(t, <-handled, codes.Canceled)
}
