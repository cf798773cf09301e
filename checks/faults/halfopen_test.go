package faults

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/redisstore"
)

// TestHalfOpen makes all connections to the server half open: what is sent is acknowledged and never answered, while new
// connections work. The store decides again within a second: rueidisstore gives up silent connections, and makes others.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	var took, late time.Duration
	for range 3 { // a busy machine disturbs an observation
		took, late = strand(t, adapters.Rueidis)
		t.Logf("the store decided again %v after its connections were half open", took)
		if took <= recoverWithin+hops*late {
			return
		}
	}
	t.Errorf("the store decided again %v after its connections were half open, want %v", took, recoverWithin+hops*late)
}

// strand returns how long the store did not decide, and how late the latest timer was.
func strand(t *testing.T, a adapters.Adapter) (took, late time.Duration) {
	t.Helper()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	g, err := guard.New(guard.Options{
		Store:    a.Open(t, adapters.To(proxy.Addr()), redisstore.Options{}),
		Deadline: loadDeadline, Fallback: loadFallback, Inline: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	l := startVolley(g, 30*time.Second)
	l.await(t, 500*time.Millisecond)
	if err := proxy.Strand(); err != nil {
		t.Fatal(err)
	}
	stranded := l.since()
	l.await(t, 4*time.Second)
	first, lost := time.Hour, 0
	for _, n := range l.end(t) {
		switch {
		case n.err != nil:
			t.Fatalf("a decision failed: %v", n.err)
		case n.first.Degraded:
			lost++
		case n.kind != callLocal && n.at > stranded && n.end() < first:
			first = n.end()
		}
	}
	if lost == 0 {
		t.Error("no connection was half open")
	}
	return first - stranded, l.scheduler()
}
