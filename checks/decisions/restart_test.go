package decisions

import (
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// TestRestartsForgetOnlyWithoutADisk: a server that keeps nothing on disk forgets all states when it ends,
// and every budget starts again, once. A server that keeps its data goes on.
func TestRestartsForgetOnlyWithoutADisk(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options []redistest.Option
		stays   bool
	}{
		"nothing kept": {nil, false},
		"kept":         {[]redistest.Option{redistest.Config("appendonly yes", "appendfsync always")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, test.options...)
			a := adapters.Rueidis
			for round, want := range []int64{onceBucket.Capacity(), onceBucket.Capacity()} {
				if test.stays && round > 0 {
					want = 0
				}
				store := a.Open(t, adapters.To(s.Addr()), redisstore.Options{})
				admitted := int64(0)
				for _, cost := range []int64{700, 300, 1} {
					d, err := store.Decide(redistest.Within(t, redistest.Soon), sluice.Request{Limit: onceBucket, Key: sluice.StringKey("k"), Cost: cost})
					if err != nil {
						t.Fatal(err)
					}
					if d.Allowed {
						admitted += cost
					}
				}
				if admitted != want {
					t.Errorf("round %d: %d units were admitted, want %d", round, admitted, want)
				}
				if err := s.Restart(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
