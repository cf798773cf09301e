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

// connect returns a client of rueidis to addresses.
func connect(tb testing.TB, addresses ...string) rueidis.Client {
	tb.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: addresses, DisableCache: true, DisableRetry: true,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
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
		plain, err := rueidisstore.NewClient(client)
		if err != nil {
			t.Fatal(err)
		}
		s, err := redisstore.New(redistest.WithClock(plain, clock.Now), o)
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
