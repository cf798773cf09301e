package rls

import (
	"fmt"
	"math"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
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

// BenchmarkMessages reads calls of 100 descriptors and writes answers to them: here, and with the generated code.
func BenchmarkMessages(b *testing.B) {
	w := newWorld(b, rule("user", "user", window(math.MaxUint32, time.Second)))
	q := &ratelimitpb.RateLimitRequest{Domain: "d"}
	for i := range 100 {
		q.Descriptors = append(q.Descriptors, &commonpb.RateLimitDescriptor{Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprint("192.0.2.", i)}}})
	}
	bytes, err := proto.Marshal(q)
	if err != nil {
		b.Fatal(err)
	}
	c := &call{service: w.Service, header: map[string][]string{}}
	if err := c.UnmarshalWire(bytes); err != nil {
		b.Fatal(err)
	}
	if err := c.check(); err != nil {
		b.Fatal(err)
	}
	v := w.decider.DecideDescriptors(b.Context(), c.domain, c.descriptors)
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := c.UnmarshalWire(bytes); err != nil {
				b.Fatal(err)
			}
			c.respond(&v)
		}
	})
	c.respond(&v)
	var answer ratelimitpb.RateLimitResponse
	if err := proto.Unmarshal(c.out, &answer); err != nil {
		b.Fatal(err)
	}
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var q ratelimitpb.RateLimitRequest
			if err := proto.Unmarshal(bytes, &q); err != nil {
				b.Fatal(err)
			}
			built := &ratelimitpb.RateLimitResponse{OverallCode: answer.GetOverallCode(), DynamicMetadata: answer.GetDynamicMetadata(), ResponseHeadersToAdd: answer.GetResponseHeadersToAdd()}
			for _, s := range answer.GetStatuses() {
				built.Statuses = append(built.Statuses, &ratelimitpb.RateLimitResponse_DescriptorStatus{
					Code: s.GetCode(), CurrentLimit: s.GetCurrentLimit(), LimitRemaining: s.GetLimitRemaining(), DurationUntilReset: &durationpb.Duration{Seconds: s.GetDurationUntilReset().GetSeconds()},
				})
			}
			if _, err := proto.Marshal(built); err != nil {
				b.Fatal(err)
			}
		}
	})
}
