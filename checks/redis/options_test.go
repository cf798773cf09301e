package redis

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// TestAdapterLifetime holds rueidisstore to refuse clients whose connections have a
// lifetime, of each kind that rueidis makes, and no others.
func TestAdapterLifetime(t *testing.T) {
	t.Parallel()
	single := redistest.Start(t)
	replica := redistest.Start(t, redistest.Config("replicaof "+strings.Replace(single.Addr(), ":", " ", 1)))
	cluster := redistest.StartCluster(t, 3, 0)
	sentinels := redistest.StartSentinels(t)
	var watchers []string
	for _, s := range sentinels.Sentinels {
		watchers = append(watchers, s.Addr())
	}
	kinds := []struct {
		name string
		o    rueidis.ClientOption
	}{
		{"single", rueidis.ClientOption{InitAddress: []string{single.Addr()}}},
		{"forced", rueidis.ClientOption{InitAddress: []string{single.Addr()}, ForceSingleClient: true}},
		{"cluster", rueidis.ClientOption{InitAddress: cluster.Addrs()}},
		{"sentinel", rueidis.ClientOption{InitAddress: watchers, Sentinel: rueidis.SentinelOption{MasterSet: redistest.SentinelName}}},
		{"replicas", rueidis.ClientOption{
			InitAddress:    []string{single.Addr()},
			Standalone:     rueidis.StandaloneOption{ReplicaAddress: []string{replica.Addr()}},
			SendToReplicas: func(rueidis.Completed) bool { return false },
		}},
	}
	for _, k := range kinds {
		for _, lifetime := range []time.Duration{0, time.Hour} {
			t.Run(k.name+" "+lifetime.String(), func(t *testing.T) {
				k.o.ConnLifetime = lifetime
				s, err := rueidisstore.New(k.o, redisstore.Options{})
				if err == nil {
					defer s.Close()
				}
				if refused := err != nil && strings.Contains(err.Error(), "set no ConnLifetime"); refused != (lifetime > 0) || (err == nil) != (lifetime == 0) {
					t.Fatalf("with a lifetime of %v, New returns %v", lifetime, err)
				}
			})
		}
	}
}

// TestAdapterFindsCluster decides batches whose keys are on several nodes, which takes
// a store that detects a cluster, and one that detects a single server.
func TestAdapterFindsCluster(t *testing.T) {
	t.Parallel()
	routes := map[string]adapters.Route{
		"single":  adapters.To(redistest.Start(t).Addr()),
		"cluster": adapters.ToCluster(redistest.StartCluster(t, 3, 0)),
	}
	limit, err := sluice.NewLimit("batch", sluice.TokenBucket{Rate: sluice.PerHour(1), Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range routes {
		t.Run(name, func(t *testing.T) {
			adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
				store := a.Open(t, r, redisstore.Options{Prefix: a.Name})
				requests := make([]sluice.Request, 20)
				for i := range requests {
					requests[i] = sluice.Request{Limit: limit, Key: sluice.NewKey("key", strconv.Itoa(i)), Cost: 1}
				}
				for _, want := range []bool{true, false} {
					decisions := make([]sluice.Decision, len(requests))
					if err := store.DecideAll(redistest.Within(t, redistest.Soon), requests, decisions); err != nil {
						t.Fatal(err)
					}
					for i, d := range decisions {
						if d.Allowed != want {
							t.Fatalf("request %d: allowed is %v", i, d.Allowed)
						}
					}
				}
			})
		})
	}
}
