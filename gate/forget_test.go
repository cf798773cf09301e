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

// A removed rule has no pressure, and the remaining rules keep theirs, even while both match
// requests.
func TestRemovedRulesHaveNoPressure(t *testing.T) {
	store, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	g, err := gate.New(store, gate.Options{Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	observe := func(name string) {
		r := &policy.Rule{Name: name, Limits: limit(sluice.TokenBucket{Rate: sluice.PerSecond(1)}), Key: []policy.Part{policy.ClientIP()}}
		q := sluice.Request{Limit: r.Limits[0], Key: sluice.StringKey("k"), Cost: 1}
		g.Observe(&policy.Verdict{Results: []policy.LimitResult{{Rule: r, Request: q, Decision: sluice.Decision{Allowed: true, Limit: 1}}}})
	}
	observe("stays")
	observe("gone")
	if g.Pressure("stays") == 0 || g.Pressure("gone") == 0 {
		t.Fatal("there is no pressure")
	}
	before := g.Pressure("stays")
	g.Forget(func(rule string) bool { return rule != "stays" })
	if got := g.Pressure("stays"); got < before/2 || g.Pressure("gone") != 0 {
		t.Errorf("the remaining rule's pressure is %v, and was %v; the removed rule's is %v", got, before, g.Pressure("gone"))
	}
	observe("gone") // by a request that began before the removal
	if g.Pressure("gone") == 0 {
		t.Error("a rule that comes back has no pressure")
	}

	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			for n := range 1000 {
				observe("r" + strconv.Itoa(n%50))
				if n%20 == i {
					g.Forget(func(rule string) bool { return rule != "r1" })
				}
			}
		})
	}
	running.Wait()
	if g.Pressure("r1") == 0 {
		t.Error("the remaining rule was forgotten while others came and went")
	}
}
