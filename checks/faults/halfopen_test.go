package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/redisstore"
)

// TestHalfOpen makes all connections to the server half open: what is sent is acknowledged and never answered, while new
// connections work. The store decides again within a second, because its client gives up silent connections, and makes others.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(*testing.T, sluice.Store, *redistest.Proxy) (took, late time.Duration){
		"many calls": strandVolley, "few calls": strandCalls,
	} {
		t.Run(name, func(t *testing.T) {
			adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
				var took, late time.Duration
				for range 3 { // a busy machine disturbs an observation
					proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
					took, late = load(t, a.Open(t, adapters.To(proxy.Addr()), redisstore.Options{}), proxy)
					t.Logf("the store decided again %v after its connections were half open", took)
					if took <= recoverWithin+hops*late {
						return
					}
				}
				t.Errorf("the store decided again %v after its connections were half open, want %v", took, recoverWithin+hops*late)
			})
		})
	}
}

func behindGuard(t *testing.T, store sluice.Store) *guard.Store {
	t.Helper()
	g, err := guard.New(guard.Options{Store: store, Deadline: loadDeadline, Fallback: loadFallback, Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// strandVolley returns how long the store did not decide under load, and how late the latest timer was.
func strandVolley(t *testing.T, store sluice.Store, proxy *redistest.Proxy) (took, late time.Duration) {
	t.Helper()
	l := startVolley(behindGuard(t, store), 30*time.Second)
	l.await(t, 500*time.Millisecond)
	if err := proxy.Strand(); err != nil {
		t.Fatal(err)
	}
	stranded := l.since()
	l.await(t, 4*time.Second)
	last := time.Duration(0)
	for _, n := range l.end(t) {
		if n.err != nil {
			t.Fatalf("a decision failed: %v", n.err)
		}
		if n.at < stranded {
			continue
		}
		if last > 0 && n.at > last+calmFor { // later failures have other causes
			break
		}
		if n.first.Degraded {
			last = n.end()
		}
	}
	if last == 0 {
		t.Fatal("no connection was half open")
	}
	return last - stranded, l.scheduler()
}

// calmFor is how long the store decides all requests until it counts as recovered. An open breaker lets much less time pass.
const calmFor = 100 * time.Millisecond

// strandCalls is strandVolley with a call in each fiftieth of a second, after a crowd of them. So a pool has many connections that
// a few calls do not try.
func strandCalls(t *testing.T, store sluice.Store, proxy *redistest.Proxy) (took, late time.Duration) {
	t.Helper()
	g := behindGuard(t, store)
	request := sluice.Request{Limit: loadAllow, Key: sluice.StringKey("key"), Cost: 1}
	var crowd sync.WaitGroup
	for range 40 {
		crowd.Go(func() {
			for range 10 {
				if _, err := store.Decide(context.Background(), request); err != nil {
					t.Error(err)
				}
			}
		})
	}
	crowd.Wait()
	t.Logf("%d connections are open", proxy.Stats().Open)
	const pause = 20 * time.Millisecond
	var stranded, last time.Time
	for n := range 300 {
		began := time.Now()
		<-time.After(pause)
		late = max(late, time.Since(began)-pause)
		if n == 50 {
			stranded = time.Now()
			if err := proxy.Strand(); err != nil {
				t.Fatal(err)
			}
		}
		d, err := g.Decide(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if d.Degraded && n >= 50 {
			last = time.Now()
		}
		if !last.IsZero() && time.Since(last) > calmFor {
			break
		}
	}
	if last.IsZero() {
		t.Fatal("no connection was half open")
	}
	return last.Sub(stranded), late
}
