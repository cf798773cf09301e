package gate_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

// A removed rule has no pressure, and the remaining rules keep theirs, also while both match
// requests.
func TestForget(t *testing.T) {
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	g, err := gate.New(store, gate.Options{Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	meet := func(name string) {
		r := &policy.Rule{Name: name, Limits: limit(sluice.TokenBucket{Rate: sluice.PerSecond(1)}), Key: []policy.Part{policy.ClientIP()}}
		q := sluice.Request{Limit: r.Limits[0], Key: sluice.StringKey("k"), Cost: 1}
		g.Observe(&policy.Verdict{Results: []policy.LimitResult{{Rule: r, Request: q, Decision: sluice.Decision{Allowed: true, Limit: 1}}}})
	}
	meet("stays")
	meet("gone")
	if g.Pressure("stays") == 0 || g.Pressure("gone") == 0 {
		t.Fatal("there is no pressure")
	}
	before := g.Pressure("stays")
	g.Forget(func(rule string) bool { return rule != "stays" })
	if got := g.Pressure("stays"); got < before/2 || g.Pressure("gone") != 0 {
		t.Errorf("the pressure on what stays is %v, and was %v; on what is gone it is %v", got, before, g.Pressure("gone"))
	}
	meet("gone") // by a request that was on its way
	if g.Pressure("gone") == 0 {
		t.Error("a rule that comes back is under no pressure")
	}

	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			for n := range 1000 {
				meet("r" + strconv.Itoa(n%50))
				if n%20 == i {
					g.Forget(func(rule string) bool { return rule != "r1" })
				}
			}
		})
	}
	running.Wait()
	if g.Pressure("r1") == 0 {
		t.Error("what stays was forgotten while others came and went")
	}
}
