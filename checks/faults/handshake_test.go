package faults

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/redisstore"
)

// TestSlowHandshake loses the connections to a server that is so far away that a new connection, of
// several round trips, takes longer than the deadline of a call. The store decides again within 5 s.
func TestSlowHandshake(t *testing.T) {
	t.Parallel()
	const deadline, again = 500 * time.Millisecond, 5 * time.Second
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	g, err := guard.New(guard.Options{
		Store:    adapters.Rueidis.Open(t, adapters.To(proxy.Addr()), redisstore.Options{}),
		Deadline: deadline, Default: sluice.FallbackAllow, Inline: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	decides := func() bool {
		d, err := g.Decide(t.Context(), sluice.Request{Limit: nodeLimit, Key: sluice.StringKey("k"), Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		return !d.Degraded
	}
	until := func(want bool, within time.Duration) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); decides() != want; <-tick.C {
			if time.Since(began) > within {
				t.Fatalf("the store decides: %v, after %v", !want, within)
			}
		}
	}
	until(true, redistest.Soon)
	if err := proxy.Reset(); err != nil {
		t.Fatal(err)
	}
	until(false, redistest.Soon)
	if err := proxy.Delay(deadline * 6 / 10); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	until(true, again)
	t.Logf("the store decided again after %v", time.Since(began))
}
