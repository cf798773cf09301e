package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// TestAdapterLifetime holds rueidisstore to refuse clients whose connections have a
// lifetime, of each kind that rueidis makes, and no others.
func TestAdapterLifetime(t *testing.T) {
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
				k.o.DisableCache = true
				k.o.ConnLifetime = lifetime
				c, err := rueidis.NewClient(k.o)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_, err = rueidisstore.New(c, redisstore.Options{})
				if refused := err != nil && strings.Contains(err.Error(), "set no ConnLifetime"); refused != (lifetime > 0) {
					t.Fatalf("with a lifetime of %v, New returns %v", lifetime, err)
				}
			})
		}
	}
}
