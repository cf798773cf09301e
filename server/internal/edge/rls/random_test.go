package rls

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/soak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestRandomCalls makes calls with random fields, extreme ones too. Each answer can be read by the generated code, has a status
// for each descriptor, and is over the limit exactly if a descriptor is.
func TestRandomCalls(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	hits := []uint64{0, 1, 2, 5, 1 << 31, 1 << 32, 1 << 62, math.MaxInt64}
	pick := func() uint64 { return hits[random.IntN(len(hits))] }
	keys := []string{"window", "bucket", "leaky", "log", "sliding", "counter", "none", ""}
	w := newWorld(t, rule("window", "window", window(5, time.Minute)), rule("bucket", "bucket", sluice.TokenBucket{Rate: sluice.PerSecond(1), Burst: 5}),
		rule("leaky", "leaky", sluice.LeakyBucket{Rate: sluice.PerSecond(1), Queue: 5}), rule("log", "log", sluice.SlidingLog{Rate: sluice.PerMinute(5)}),
		rule("sliding", "sliding", sluice.SlidingWindow{Rate: sluice.PerMinute(5)}, window(7, time.Hour)), rule("counter", "counter", sluice.SlidingCounter{Rate: sluice.PerMinute(5)}))
	allowed, denied := 0, 0
	for range soak.Times(t, 1000) {
		q := &ratelimitpb.RateLimitRequest{Domain: "d", HitsAddend: uint32(pick())}
		for range 1 + random.IntN(4) {
			d := generated(keys[random.IntN(len(keys))], string(rune('a'+random.IntN(3))))
			if random.IntN(2) == 0 {
				d.HitsAddend = wrapperspb.UInt64(pick())
			}
			d.IsNegativeHits = random.IntN(8) == 0
			if random.IntN(8) == 0 {
				d.Limit = &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(pick()), Unit: typepb.RateLimitUnit(1 + random.IntN(7))}
			}
			q.Descriptors = append(q.Descriptors, d)
		}
		w.now = w.now.Add(time.Duration(random.IntN(10_000)) * time.Millisecond)
		b, err := proto.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := shouldRateLimit(w.Service, t.Context(), func(m any) error { return m.(*call).UnmarshalWire(b) }, nil)
		if err != nil {
			if status.Code(err) != codes.InvalidArgument {
				t.Fatalf("call %v failed without InvalidArgument: %v", q, err)
			}
			continue
		}
		var v ratelimitpb.RateLimitResponse
		if err := proto.Unmarshal(answer.(*call).AppendWire(nil), &v); err != nil {
			t.Fatalf("the answer to %v cannot be read: %v", q, err)
		}
		over := false
		for _, s := range v.GetStatuses() {
			over = over || s.GetCode() == ratelimitpb.RateLimitResponse_OVER_LIMIT
		}
		if len(v.GetStatuses()) != len(q.GetDescriptors()) || over != (v.GetOverallCode() == ratelimitpb.RateLimitResponse_OVER_LIMIT) {
			t.Fatalf("the statuses for %v disagree:\n%v", q, &v)
		}
		if over {
			denied++
		} else {
			allowed++
		}
	}
	if allowed < 100 || denied < 100 {
		t.Errorf("%d allowed, %d denied", allowed, denied)
	}
}
