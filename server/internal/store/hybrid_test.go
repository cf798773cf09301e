package store

import (
	"reflect"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// TestListedHybrid converts hybrid limits and keys to the form of the API. A time that would be negative, because a clock was set
// back, is zero.
func TestListedHybrid(t *testing.T) {
	now := time.Now()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "strict", Key: []policy.Part{policy.ClientIP()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(1)})},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	second := int64(1000)
	for name, x := range map[string]struct{ got, want any }{
		"a hybrid limit": {hybridLimit(&hybrid.LimitStats{
			Limit: "strict/2", Keys: 1, Over: 2, Under: 3, Escrow: 4, Unspent: 5, Unreported: 6, Overdraft: 7, Local: 8, Cached: 9, Exact: 10,
			Excess: 11, LastSync: now.Add(-time.Second),
		}, "never more", now), wire.HybridLimit{
			Rule: "strict", Limit: "strict/2", Bound: "never more", Keys: 1, Over: 2, Under: 3, Escrow: 4, Unspent: 5, Unreported: 6, Overdraft: 7,
			Local: 8, Cached: 9, Exact: 10, Excess: 11, LastSyncMS: &second,
		}},
		"a limit that never synchronised": {hybridLimit(&hybrid.LimitStats{Limit: "a"}, "", now), wire.HybridLimit{Rule: "a", Limit: "a"}},
		"a hybrid key": {hybridKey(&hybrid.KeyStats{
			Limit: "strict/2", Key: sluice.StringKey("192.0.2.1"), Escrow: 5, Holders: 2, Unspent: 3, Unreported: 1, Age: 50 * time.Millisecond,
			Till: now.Add(time.Second),
		}, p, "d", now), wire.HybridKey{
			Rule: "strict", Limit: "strict/2", Key: []string{"192.0.2.1"}, Digest: "d", Escrow: 5, Holders: 2, Unspent: 3, Unreported: 1, AgeMS: 50, TillMS: 1000,
		}},
		"a hybrid key of a rule that is gone": {
			hybridKey(&hybrid.KeyStats{Limit: "gone", Key: sluice.NewKey("a", "b"), Escrow: 1, Till: now.Add(-time.Second)}, p, "d", now),
			wire.HybridKey{Rule: "gone", Limit: "gone", Key: []string{"a", "b"}, Digest: "d", Escrow: 1},
		},
	} {
		if !reflect.DeepEqual(x.got, x.want) {
			t.Errorf("%s: %+v, want %+v", name, x.got, x.want)
		}
	}
}
