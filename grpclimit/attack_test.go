package grpclimit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/policy"
)

// spellings are other spellings of a method, which some services could take for it.
var spellings = []string{
	"//shop.v1.Orders/Create", "/shop.v1.Orders//Create", "/shop.v1.Orders/Create/", "/shop.v1.Orders/./Create",
	"/shop.v1.Orders/%43reate", "/shop.v1.Orders/a/../Create", "/a/%2e%2e/shop.v1.Orders/Create",
}

// Methods are compared exactly: another spelling reaches neither a handler nor the interceptor.
func TestMethodSpellings(t *testing.T) {
	var decided, handled atomic.Int64
	counted := func(*grpclimit.Call, *policy.Verdict, time.Duration) { decided.Add(1) }
	conn := serve(t, &service{}, append(limited(t, unlimited(), grpclimit.ServerOptions{OnVerdict: counted}),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			handled.Add(1)
			return handler(ctx, r)
		})))
	for _, method := range append(spellings, "/shop.v1.Orders%2FCreate", "/shop.v1.orders/Create", "/shop.v1.Orders/create", "/shop.v1.Orders/Other", "/other/Create", "/Create") {
		want(t, conn.Invoke(t.Context(), method, wrapperspb.String("one"), new(text)), codes.Unimplemented)
	}
	if decided.Load() != 0 || handled.Load() != 0 {
		t.Errorf("%d calls were decided, and %d handled", decided.Load(), handled.Load())
	}
}

// A server that passes unknown methods on, such as a proxy, limits all spellings of a method by its rule.
func TestMethodSpellingsOfAProxy(t *testing.T) {
	var handled atomic.Int64
	d := ruled(policy.Rule{Name: "create", Match: policy.Match{Paths: []string{create}}, Key: []policy.Part{policy.Global()}, Limits: []*sluice.Limit{perDay(1)}})
	conn := serve(t, &service{}, append(limited(t, d, grpclimit.ServerOptions{}), grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		handled.Add(1)
		return nil
	})))
	want(t, call(t.Context(), conn), codes.OK)
	for _, method := range spellings {
		err := conn.Invoke(t.Context(), method, wrapperspb.String("one"), new(text))
		if want(t, err, codes.ResourceExhausted); handled.Load() != 0 {
			t.Errorf("%s reached the handler", method)
		}
	}
	want(t, conn.Invoke(t.Context(), "/shop.v1.Orders/Create%00", wrapperspb.String("one"), new(text)), codes.InvalidArgument)
}

// Spellings of one authority share the budget of its rule.
func TestAuthoritySpellings(t *testing.T) {
	d := ruled(policy.Rule{Name: "api", Match: policy.Match{Hosts: []string{"api.example.com"}}, Key: []policy.Part{policy.Host()}, Limits: []*sluice.Limit{perDay(1)}})
	o := limited(t, d, grpclimit.ServerOptions{})
	for _, c := range []struct {
		host string
		code codes.Code
	}{
		{"api.example.com", codes.OK},
		{"api.example.com:443", codes.ResourceExhausted},
		{"API.Example.com", codes.ResourceExhausted},
		{"api.example.com.", codes.ResourceExhausted},
		{"other.example.com", codes.OK},
		{"api.example.com:80:80", codes.InvalidArgument},
		{"api.example.com,other", codes.InvalidArgument},
	} {
		if err := call(t.Context(), serveTCP(t, &service{}, o, grpc.WithAuthority(c.host))); status.Code(err) != c.code {
			t.Errorf("%s: %v, want %v", c.host, err, c.code)
		}
	}
}
