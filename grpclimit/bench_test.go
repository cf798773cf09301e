package grpclimit_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/grpclimit"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// bare does nothing, as the least that an interceptor costs.
func bare(ctx context.Context, r any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(ctx, r)
}

var never = sluice.TokenBucket{Rate: sluice.PerSecond(100_000_000)}

// BenchmarkCall calls a server in memory. The cost of the limits is a figure minus the figure of bare.
func BenchmarkCall(b *testing.B) {
	rules := ruled(policy.Rule{
		Name: "orders", Match: policy.Match{Paths: []string{"/shop.v1.Orders/*"}}, Key: []policy.Part{policy.Header("x-user")},
		Limits: []*sluice.Limit{sluice.MustLimit("", never)},
	})
	peer := keyed(never, policy.ClientIP())
	for name, o := range map[string][]grpc.ServerOption{
		"bare":             {grpc.ChainUnaryInterceptor(bare)},
		"key":              limited(b, peer, grpclimit.ServerOptions{}),
		"key, no metadata": limited(b, peer, grpclimit.ServerOptions{Headers: httplimit.HeaderOptions{Profile: httplimit.ProfileNone}}),
		"policy":           limited(b, rules, grpclimit.ServerOptions{}),
		"denied":           limited(b, keyed(sluice.TokenBucket{Rate: sluice.PerDay(1)}), grpclimit.ServerOptions{}),
	} {
		b.Run(name, func(b *testing.B) {
			conn := serveTCP(b, &service{}, o)
			ctx := with("x-user", "alice")
			_ = call(ctx, conn)
			b.ReportAllocs()
			for b.Loop() {
				_ = call(ctx, conn)
			}
		})
	}
}

// BenchmarkInterceptor calls only the interceptor, with a handler that does nothing.
func BenchmarkInterceptor(b *testing.B) {
	s := must(grpclimit.NewServer(keyed(never), grpclimit.ServerOptions{Headers: httplimit.HeaderOptions{Profile: httplimit.ProfileNone}}))
	info := &grpc.UnaryServerInfo{FullMethod: create}
	for name, intercept := range map[string]grpc.UnaryServerInterceptor{"bare": bare, "limited": s.Unary} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = intercept(context.Background(), nil, info, func(context.Context, any) (any, error) { return nil, nil })
			}
		})
	}
}
