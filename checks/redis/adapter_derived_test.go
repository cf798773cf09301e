package redis

import (
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/goredisstore"
	"github.com/sluicehq/sluice/redisstore"
)

// derived is the adapter for a program that has a client of go-redis with default options.
var derived = goredisAdapter("derived", func(tb testing.TB, r adapterRoute) goredis.UniversalClient {
	tb.Helper()
	return derive(tb, goredisClient(tb, r, 0, false))
})

// derive returns a client that is made from another one.
func derive(tb testing.TB, c goredis.UniversalClient) goredis.UniversalClient {
	tb.Helper()
	own, err := goredisstore.Derive(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = own.Close() })
	return own
}

// TestDerivedSendsOnce cuts connections after each number of bytes of a reply. The derived
// client has run the script once. The client that it was made from repeats it.
func TestDerivedSendsOnce(t *testing.T) {
	s := redistest.Start(t)
	sha := load(t, s)
	for n := range len("$1\r\n1\r\n") {
		p := redistest.StartProxy(t, s.Addr())
		repeats := goredisClient(t, toProxy(p), 0, false)
		c, err := goredisstore.NewClient(derive(t, repeats))
		if err != nil {
			t.Fatal(err)
		}
		for _, ping := range []func() error{
			func() error { return repeats.Ping(within(t, soon)).Err() },
			func() error { _, err := c.Info(within(t, soon), ""); return err },
		} {
			if err := ping(); err != nil { // there is a connection now
				t.Fatal(err)
			}
		}
		if err := p.Cut("evalsha", n); err != nil {
			t.Fatal(err)
		}
		once, often := fmt.Sprint("once", n), fmt.Sprint("often", n)
		_, err = c.EvalSHA(within(t, soon), sha, []string{once}, []string{""})
		wantUnknown(t, err)
		if err := repeats.EvalSha(within(t, soon), sha, []string{often}, "").Err(); err == nil {
			t.Error("a reply came through the cut connection")
		}
		if err := p.Pass(); err != nil {
			t.Fatal(err)
		}
		wantCount(t, s, once, 1)
		if got := counted(t, s, often); got < 2 {
			t.Errorf("the client with default options ran the script %d times, so the test proves nothing", got)
		}
	}
}

// TestDerivedHeedsDeadlines calls a server that does not answer.
func TestDerivedHeedsDeadlines(t *testing.T) {
	s := redistest.Start(t)
	sha := load(t, s)
	c := derived.dial(t, toServer(s))
	inFullSwing(t, c, sha)
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	var p punctual
	for range 5 {
		p.call(t, c, sha, "k")
	}
	p.check(t)
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	wantRecovery(t, c, sha)
}

// TestDerivedOnACluster follows redirections, and decides a batch over several slots.
func TestDerivedOnACluster(t *testing.T) {
	p := startProxied(t)
	c := derived.dial(t, p.route)
	inFullSwing(t, c, p.sha)
	testMoved(t, p, c, "{moved derived}")
	testAsk(t, p, c, "{ask derived}")
	store := derived.open(t, p.route, redisstore.Options{Prefix: "derived"})
	limit := sluice.MustLimit("batch", sluice.TokenBucket{Rate: sluice.PerHour(1), Burst: 1})
	requests := make([]sluice.Request, 20)
	for i := range requests {
		requests[i] = sluice.Request{Limit: limit, Key: sluice.StringKey(fmt.Sprint(i)), Cost: 1}
	}
	decisions := make([]sluice.Decision, len(requests))
	if err := store.DecideAll(within(t, soon), requests, decisions); err != nil {
		t.Fatal(err)
	}
	for i, d := range decisions {
		if !d.Allowed {
			t.Errorf("request %d: %+v", i, d)
		}
	}
}

// TestDerivedSentinelFailover finds the new master after a planned failover, and after the
// death of that one.
func TestDerivedSentinelFailover(t *testing.T) {
	t.Parallel() // it waits more than it works
	s := redistest.StartSentinels(t)
	f := startFailovers(t, derived, adapterRoute{addrs: s.Addrs(), master: redistest.SentinelName})
	ctx := within(t, 3*soon)
	second, err := s.Failover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f.recovers("a planned failover", everyKey)
	if err := s.WaitOK(ctx); err != nil { // the old master is a replica now
		t.Fatal(err)
	}
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WaitFailover(ctx, second); err != nil {
		t.Fatal(err)
	}
	f.recovers("a master's death", everyKey)
	f.finish()
}

// TestDerivedIsClosedByItself: closing the store closes no client, and closing either client
// leaves the other one open.
func TestDerivedIsClosedByItself(t *testing.T) {
	ping := func(c goredis.UniversalClient) error { return c.Ping(within(t, soon)).Err() }
	for name, route := range map[string]adapterRoute{
		"single":  toServer(redistest.Start(t)),
		"cluster": {cluster: true, addrs: redistest.StartCluster(t, 3, 0).Addrs()},
	} {
		t.Run(name, func(t *testing.T) {
			original := openGoredis(route)
			first, second := derive(t, original), derive(t, original)
			store, err := goredisstore.New(first, redisstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := sluice.Request{Limit: sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerHour(1)}), Key: sluice.StringKey(name), Cost: 1}
			if d, err := store.Decide(within(t, soon), r); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			if err := ping(first); err != nil {
				t.Errorf("the store has closed its client: %v", err)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			if err := ping(original); err != nil {
				t.Errorf("the derived client has closed the other one: %v", err)
			}
			if err := original.Close(); err != nil {
				t.Fatal(err)
			}
			if err := ping(second); err != nil {
				t.Errorf("a derived client is closed with the other one: %v", err)
			}
			_ = second.Close()
			if err := ping(second); err == nil {
				t.Error("a closed client answers")
			}
		})
	}
}

// openGoredis returns a client with default options that the test closes.
func openGoredis(r adapterRoute) goredis.UniversalClient {
	if r.cluster {
		return goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: r.addrs})
	}
	return goredis.NewClient(&goredis.Options{Addr: r.addrs[0]})
}
