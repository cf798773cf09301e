package goredisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/redisstore"
)

// Scan goes through the keys of the server, or of all masters of a cluster.
func (c *client) Scan(ctx context.Context, from, match string, count int) (keys []string, next string, err error) {
	cluster, clustered := c.redis.(*redis.ClusterClient)
	scan := func(ctx context.Context, key string, cursor uint64) ([]string, uint64, error) {
		if !clustered {
			return scanned(c.redis.Scan(ctx, cursor, match, int64(count)))
		}
		node, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return nil, 0, err
		}
		return scanned(node.Scan(ctx, cursor, match, int64(count)))
	}
	if !clustered {
		return redisstore.ScanServer(ctx, from, scan)
	}
	return redisstore.ScanCluster(ctx, from, func(ctx context.Context) ([]int, error) {
		ranges, err := cluster.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS is not there before Redis 7
		if err != nil {
			return nil, explainRead(err)
		}
		first := map[string]int{}
		for _, r := range ranges {
			if len(r.Nodes) == 0 {
				continue
			}
			id := r.Nodes[0].ID // the master
			if known, ok := first[id]; !ok || r.Start < known {
				first[id] = r.Start
			}
		}
		var all []int
		for _, slot := range first {
			all = append(all, slot)
		}
		return all, nil
	}, scan)
}

// scanned returns what a SCAN found.
func scanned(command *redis.ScanCmd) ([]string, uint64, error) {
	keys, cursor, err := command.Result()
	return keys, cursor, explainRead(err)
}

// explainRead turns the error of a command that changes nothing into one of redisstore.
func explainRead(err error) error {
	if err == nil {
		return nil
	}
	return (&once{asked: true}).explain(err)
}
