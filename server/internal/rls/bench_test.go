package rls

import (
	"fmt"
	"math"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// BenchmarkCall is a call from its bytes to the bytes of its answer.
func BenchmarkCall(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b, rule("user", "user", window(math.MaxUint32, time.Second)))
			q := &ratelimitpb.RateLimitRequest{Domain: "d"}
			for i := range n {
				q.Descriptors = append(q.Descriptors, &commonpb.RateLimitDescriptor{Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprint("192.0.2.", i)}}})
			}
			bytes, err := proto.Marshal(q)
			if err != nil {
				b.Fatal(err)
			}
			decode := func(m any) error { return m.(*call).UnmarshalWire(bytes) }
			out := make([]byte, 0, 1<<16)
			b.ReportAllocs()
			for b.Loop() {
				answer, err := shouldRateLimit(w.Service, b.Context(), decode, nil)
				if err != nil {
					b.Fatal(err)
				}
				answer.(*call).AppendWire(out)
			}
		})
	}
}
