package redis

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/storetest"
)

// TestContractOnACluster runs the contract on a cluster of three masters, where the
// keys of a batch lie in several slots.
func TestContractOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	client := connect(t, cluster.Addrs()...)
	var stores atomic.Int64
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) sluice.Store {
		t.Helper()
		s, err := redisstore.New(redistest.WithClock(client, clock.Now), redisstore.Options{
			Prefix: fmt.Sprintf("contract-%d", stores.Add(1)), Cluster: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, storetest.TimeGoesBack(), storetest.Attempts(400))
}
