package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
	"github.com/sluicehq/sluice/storetest"
)

// connect returns a client to addresses.
func connect(tb testing.TB, addresses ...string) *rueidisstore.Client {
	tb.Helper()
	c, err := rueidisstore.NewClient(rueidis.ClientOption{InitAddress: addresses, DisableRetry: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// connectStore returns a store at addresses.
func connectStore(tb testing.TB, addresses ...string) *redisstore.Store {
	tb.Helper()
	c := connect(tb, addresses...)
	s, err := redisstore.New(c, redisstore.Options{Cluster: c.Cluster()})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// TestContract runs the whole contract of a store against a real server, with the
// clock of the tests in place of the server's.
func TestContract(t *testing.T) {
	server := redistest.Start(t)
	client := connect(t, server.Addr())
	var stores atomic.Int64
	factory := func(t *testing.T, clock *storetest.Clock) sluice.Store {
		t.Helper()
		o := redisstore.Options{Prefix: fmt.Sprintf("contract-%d", stores.Add(1))}
		s, err := redisstore.New(redistest.WithClock(client, clock.Now), o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	storetest.Run(t, factory, storetest.TimeGoesBack(), storetest.Attempts(400))
	keys, err := server.KeysWithoutTTL(context.Background())
	if err != nil || len(keys) > 0 {
		t.Errorf("keys without a time to live: %v, %v", keys, err)
	}
}
