package calls

import (
	"context"
	"net"
	"os"
	"regexp"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policyfile"
)

// rules returns a decider by the rules that the guide shows for gRPC.
func rules(t *testing.T) *grpclimit.Decider {
	t.Helper()
	page, err := os.ReadFile("../../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) != 1 {
		t.Fatalf("the guide shows %d files, and this test reads one", len(blocks))
	}
	file, err := policyfile.Parse("guide.md", blocks[0][1])
	if err != nil {
		t.Fatal(err)
	}
	p, err := file.Policy()
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.New(memory.Options{Clock: func() int64 { return 1 }})
	if err != nil {
		t.Fatal(err)
	}
	d, err := grpclimit.NewPolicyDecider(grpclimit.PolicyOptions{Policy: p, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// result is the code with which all calls of a server end. The test chooses it.
var result = codes.OK

// service is a service whose methods end with the result.
func service(name string, methods ...string) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil)}
	for _, method := range methods {
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: method, Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(emptypb.Empty)
			if err := decode(in); err != nil {
				return nil, err
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/" + name + "/" + method}, func(context.Context, any) (any, error) {
				return in, status.Error(result, "")
			})
		}})
	}
	return d
}

// TestRulesOfTheGuide calls a server with the rules that docs/guide.md shows.
func TestRulesOfTheGuide(t *testing.T) {
	limiter, err := grpclimit.NewServer(rules(t), grpclimit.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(limiter.Options()...)
	server.RegisterService(service("shop.v1.Orders", "Create", "List"), nil)
	server.RegisterService(service("shop.v1.Users", "Login"), nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Stop()
		<-served
	}()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	want := func(n int, code codes.Code, method string, pairs ...string) {
		t.Helper()
		for range n {
			err := conn.Invoke(metadata.AppendToOutgoingContext(t.Context(), pairs...), method, new(emptypb.Empty), new(emptypb.Empty))
			if status.Code(err) != code {
				t.Fatalf("%s: %v, want %v", method, err, code)
			}
		}
	}
	want(60, codes.OK, "/shop.v1.Orders/Create", "x-tenant", "a")
	want(40, codes.OK, "/shop.v1.Orders/List", "x-tenant", "a")
	want(1, codes.ResourceExhausted, "/shop.v1.Orders/List", "x-tenant", "a")
	want(1, codes.OK, "/shop.v1.Orders/List", "x-tenant", "b")
	want(1, codes.InvalidArgument, "/shop.v1.Orders/List")
	want(9, codes.OK, "/shop.v1.Users/Login")
	result = codes.Unauthenticated
	want(5, codes.Unauthenticated, "/shop.v1.Users/Login")
	want(1, codes.ResourceExhausted, "/shop.v1.Users/Login")
}
