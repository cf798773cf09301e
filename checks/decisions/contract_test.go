package decisions

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/storetest"
)

// runContract runs the contract of a store over a client, with the clock of the test in place
// of the server's and with prefixes that begin with "contract". Percent says how many of the
// random requests to make.
func runContract(t *testing.T, client redisstore.Client, cluster bool, percent int) {
	t.Helper()
	var stores atomic.Int64
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) sluice.Store {
		t.Helper()
		s, err := redisstore.New(redistest.WithClock(client, clock.Now), redisstore.Options{
			Prefix: fmt.Sprintf("contract-%d", stores.Add(1)), Cluster: cluster,
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, storetest.TimeGoesBack(), storetest.Holds(), storetest.Attempts(4*percent), storetest.Percent(percent))
}

// TestRedisKeepsTheContract runs the contract on one server.
func TestRedisKeepsTheContract(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	runContract(t, adapters.Rueidis.Dial(t, adapters.ToSocket(server)), false, redistest.Times(t, 1))
	keys, err := server.KeysWithoutTTL(t.Context())
	if err != nil || len(keys) > 0 {
		t.Errorf("keys without a time to live: %v, %v", keys, err)
	}
}

// TestClusterKeepsTheContract runs the contract on a cluster of three masters, where the
// keys of a batch lie in several slots.
func TestClusterKeepsTheContract(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	runContract(t, adapters.Rueidis.Dial(t, adapters.ToCluster(cluster)), true, redistest.Times(t, 1))
}
