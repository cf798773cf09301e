package observe

import (
	"reflect"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/observe/live"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// TestListedKeys converts denied keys to the form of the API. A time that would be negative, because a clock was set
// back, is zero.
func TestListedKeys(t *testing.T) {
	now := time.Now()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "strict", Key: []policy.Part{policy.ClientIP()}, Limits: []*sluice.Limit{sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(1)})},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct{ got, want any }{
		"a denied key": {deniedKey(&live.DeniedKey{
			Rule: "strict", Key: sluice.StringKey("192.0.2.1"), Digest: "d", Limit: "strict/2", Role: policy.RoleShadow,
			Reason: sluice.ReasonTooSoon, Denials: 3, Error: 1, First: now.Add(-time.Minute), Last: now.Add(-time.Second),
		}, p, now), wire.DeniedKey{
			Rule: "strict", Key: []string{"192.0.2.1"}, Digest: "d", Limit: "strict/2", Role: "shadow", Reason: "too-soon", Denials: 3, Error: 1, FirstMS: 60_000, LastMS: 1000,
		}},
		"a denied key that was not kept": {
			deniedKey(&live.DeniedKey{Rule: "strict", Limit: "strict", Reason: sluice.ReasonLimited, First: now.Add(time.Second), Last: now.Add(time.Second)}, p, now),
			wire.DeniedKey{Rule: "strict", Limit: "strict", Role: "enforced", Reason: "limited"},
		},
	} {
		if !reflect.DeepEqual(x.got, x.want) {
			t.Errorf("%s: %+v, want %+v", name, x.got, x.want)
		}
	}
}
