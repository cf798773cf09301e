package redis

import (
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/goredisstore"
	"github.com/sluicehq/sluice/redisstore"
)

// TestDerivedSendsOnce cuts connections after each number of bytes of a reply. The derived
// client has run the script once. The client that it was made from repeats it.
func TestDerivedSendsOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	sha := load(t, s)
	for n := range len("$1\r\n1\r\n") {
		p := redistest.StartProxy(t, s.Addr())
		repeats := adapters.GoredisClient(t, adapters.To(p.Addr()), 0, false)
		c, err := goredisstore.NewClient(adapters.Derive(t, repeats))
		if err != nil {
			t.Fatal(err)
		}
		for _, ping := range []func() error{
			func() error { return repeats.Ping(redistest.Within(t, redistest.Soon)).Err() },
			func() error { _, err := c.Info(redistest.Within(t, redistest.Soon), ""); return err },
		} {
			if err := ping(); err != nil { // there is a connection now
				t.Fatal(err)
			}
		}
		if err := p.Cut("evalsha", n); err != nil {
			t.Fatal(err)
		}
		once, often := fmt.Sprint("once", n), fmt.Sprint("often", n)
		_, err = c.EvalSHA(redistest.Within(t, redistest.Soon), sha, []string{once}, []string{""})
		wantUnknown(t, err)
		if err := repeats.EvalSha(redistest.Within(t, redistest.Soon), sha, []string{often}, "").Err(); err == nil {
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
	t.Parallel()
	s := redistest.Start(t)
	sha := load(t, s)
	c := adapters.Derived.Dial(t, adapters.To(s.Addr()))
	inFullSwing(t, c, sha)
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	p := punctual{stalls: process.MeasureStalls(t)}
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
	t.Parallel()
	p := adapters.StartProxied(t)
	c := adapters.Derived.Dial(t, p.Route)
	sha := ""
	for _, s := range p.Nodes {
		sha = load(t, s)
	}
	inFullSwing(t, c, sha)
	testMoved(t, p, c, sha, "{moved derived}")
	testMigrating(t, p, c, sha, "{migrating derived}")
	store := adapters.Derived.Open(t, p.Route, redisstore.Options{Prefix: "derived"})
	limit := sluice.MustLimit("batch", sluice.TokenBucket{Rate: sluice.PerHour(1), Burst: 1})
	requests := make([]sluice.Request, 20)
	for i := range requests {
		requests[i] = sluice.Request{Limit: limit, Key: sluice.StringKey(fmt.Sprint(i)), Cost: 1}
	}
	decisions := make([]sluice.Decision, len(requests))
	if err := store.DecideAll(redistest.Within(t, redistest.Soon), requests, decisions); err != nil {
		t.Fatal(err)
	}
	for i, d := range decisions {
		if !d.Allowed {
			t.Errorf("request %d: %+v", i, d)
		}
	}
}

// TestDerivedIsClosedByItself: closing the store closes no client, and closing either client
// leaves the other one open.
func TestDerivedIsClosedByItself(t *testing.T) {
	t.Parallel()
	ping := func(c goredis.UniversalClient) error { return c.Ping(redistest.Within(t, redistest.Soon)).Err() }
	for name, route := range map[string]adapters.Route{
		"single":  adapters.To(redistest.Start(t).Addr()),
		"cluster": adapters.ToCluster(redistest.StartCluster(t, 3, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			original := openGoredis(route)
			first, second := adapters.Derive(t, original), adapters.Derive(t, original)
			store, err := goredisstore.New(first, redisstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := sluice.Request{Limit: sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerHour(1)}), Key: sluice.StringKey(name), Cost: 1}
			if d, err := store.Decide(redistest.Within(t, redistest.Soon), r); err != nil || !d.Allowed {
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
func openGoredis(r adapters.Route) goredis.UniversalClient {
	if r.Cluster {
		return goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: r.Addrs})
	}
	return goredis.NewClient(&goredis.Options{Addr: r.Addrs[0]})
}
