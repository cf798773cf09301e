package grpclimit_test

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

type text = wrapperspb.StringValue

// service is shop.v1.Orders, with a method of each kind. A nil handler echoes.
type service struct {
	create func(ctx context.Context, in *text) (*text, error)
	chat   func(stream grpc.BidiStreamingServer[text, text]) error
}

const (
	create = "/shop.v1.Orders/Create" // unary
	chat   = "/shop.v1.Orders/Chat"   // both sides stream
)

func (s *service) desc() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "shop.v1.Orders", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Create", Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(text)
			if err := decode(in); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, in any) (any, error) {
				if s.create == nil {
					return in, nil
				}
				return s.create(ctx, in.(*text))
			}
			if intercept == nil {
				return handle(ctx, in)
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{Server: s, FullMethod: create}, handle)
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Chat", ServerStreams: true, ClientStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			typed := &grpc.GenericServerStream[text, text]{ServerStream: stream}
			if s.chat != nil {
				return s.chat(typed)
			}
			return echo(typed)
		}}},
	}
}

// echo sends each message back until the client has sent its last one.
func echo(stream grpc.BidiStreamingServer[text, text]) error {
	for {
		in, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the end of the client's messages
		}
		if err := stream.Send(in); err != nil {
			return err
		}
	}
}

// serve starts a server in memory and returns a connection to it.
func serve(tb testing.TB, s *service, server []grpc.ServerOption, client ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	l := bufconn.Listen(1 << 20)
	return serveOn(tb, l, "passthrough:///shop.example.com", s, server, append(client,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))...)
}

// serveTCP starts a server on loopback and returns a connection to it.
func serveTCP(tb testing.TB, s *service, server []grpc.ServerOption, client ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	return serveOn(tb, l, l.Addr().String(), s, server, client...)
}

func serveOn(tb testing.TB, l net.Listener, target string, s *service, server []grpc.ServerOption, client ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	g := grpc.NewServer(server...)
	g.RegisterService(s.desc(), s)
	var done sync.WaitGroup
	done.Go(func() { _ = g.Serve(l) })
	conn := must(grpc.NewClient(target, append(client, grpc.WithTransportCredentials(insecure.NewCredentials()))...))
	tb.Cleanup(func() {
		_ = conn.Close()
		g.Stop()
		done.Wait()
	})
	return conn
}

// call calls the unary method.
func call(ctx context.Context, conn *grpc.ClientConn, options ...grpc.CallOption) error {
	return conn.Invoke(ctx, create, wrapperspb.String("one"), new(text), options...)
}

// open opens a stream.
func open(ctx context.Context, conn *grpc.ClientConn) *grpc.GenericClientStream[text, text] {
	desc := &grpc.StreamDesc{StreamName: "Chat", ServerStreams: true, ClientStreams: true}
	return &grpc.GenericClientStream[text, text]{ClientStream: must(conn.NewStream(ctx, desc, chat))}
}

// with returns a context with metadata to send.
func with(pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), pairs...)
}

// keyed returns a decider by one limit, or panics.
func keyed(a sluice.Algorithm, parts ...policy.Part) *grpclimit.Decider {
	if len(parts) == 0 {
		parts = []policy.Part{policy.Constant("all")}
	}
	return must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: must(memory.New(memory.Options{})), Limits: []*sluice.Limit{sluice.MustLimit("api", a)}, Key: parts,
	}))
}

// byAddress returns a decider that gives each client one call a day, or panics. Calls without an address are refused.
func byAddress(ip *httplimit.ClientIP) *grpclimit.Decider {
	return must(grpclimit.NewKeyDecider(grpclimit.KeyOptions{
		Store: must(memory.New(memory.Options{})), Limits: []*sluice.Limit{perDay(1)}, ClientIP: ip,
		Key: []policy.Part{policy.ClientIP().IfMissing(policy.MissingDeny)},
	}))
}

// ruled returns a decider by rules, or panics.
func ruled(rules ...policy.Rule) *grpclimit.Decider {
	return must(grpclimit.NewPolicyDecider(grpclimit.PolicyOptions{
		Policy: must(policy.New(policy.Options{Rules: rules})), Store: must(memory.New(memory.Options{})),
	}))
}

// perDay is a limit that does not refill during a test.
func perDay(n int64) *sluice.Limit {
	return sluice.MustLimit("", sluice.TokenBucket{Rate: sluice.PerDay(n)})
}

// limited returns the options of a server with limits.
func limited(tb testing.TB, d *grpclimit.Decider, o grpclimit.ServerOptions) []grpc.ServerOption {
	tb.Helper()
	s, err := grpclimit.NewServer(d, o)
	if err != nil {
		tb.Fatal(err)
	}
	return s.Options()
}

// dialed returns the options of a client with limits.
func dialed(tb testing.TB, d *grpclimit.Decider, o grpclimit.ClientOptions) []grpc.DialOption {
	tb.Helper()
	c, err := grpclimit.NewClient(d, o)
	if err != nil {
		tb.Fatal(err)
	}
	return c.Options()
}

// want fails the test unless an error has a code.
func want(tb testing.TB, err error, code codes.Code) {
	tb.Helper()
	if status.Code(err) != code {
		tb.Fatalf("the call ended with %v, want %v", err, code)
	}
}

// detail returns the detail of a type from an error, or its zero value.
func detail[T any](err error) (d T) {
	for _, any := range status.Convert(err).Details() {
		if d, ok := any.(T); ok {
			return d
		}
	}
	return d
}

func retryInfo(err error) *errdetails.RetryInfo { return detail[*errdetails.RetryInfo](err) }

// eventually waits until a condition holds, without a pause of its own between two attempts.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(5 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			tb.Fatalf("not within 5 s: %s", what)
		}
		runtime.Gosched()
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
