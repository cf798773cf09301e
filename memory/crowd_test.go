package memory

import (
	"context"
	"strconv"
	"testing"

	"github.com/sluicehq/sluice"
)

// TestBatchesOfNewKeysFindRoom: keys that come in batches, and are as new again soon
// after, are swept as fast as they come. Else the far end of a table fills up while the
// whole of it is nowhere near full.
func TestBatchesOfNewKeysFindRoom(t *testing.T) {
	t.Parallel()
	for _, perBatch := range []int{2, 8, 20, 100} {
		now := int64(start)
		s := open(t, &now, Options{Shards: 8})
		out := make([]sluice.Decision, perBatch)
		for i := range 100_000 / perBatch {
			now += 500
			rs := make([]sluice.Request, perBatch)
			for j := range rs {
				l := sluice.MustLimit("limit-"+strconv.Itoa(i/4)+"-"+strconv.Itoa(j), sluice.TokenBucket{Rate: sluice.PerSecond(1_000_000)})
				rs[j] = sluice.Request{Limit: l, Key: numbered(i), Cost: 1}
			}
			if err := s.DecideAll(context.Background(), rs, out); err != nil {
				t.Fatal(err)
			}
			for j, d := range out {
				if !d.Allowed || d.Overflow {
					t.Fatalf("batch %d of %d, request %d: %+v, %+v", i, perBatch, j, d, s.Stats())
				}
			}
		}
		checkInvariants(t, s)
	}
}
