package rueidisstore

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/redisstore"
)

// Scan goes through the keys of the server, or of all masters of a cluster.
func (c *client) Scan(ctx context.Context, from, match string, count int) (keys []string, next string, err error) {
	clustered := c.redis.Mode() == rueidis.ClientModeCluster
	scan := func(ctx context.Context, key string, cursor uint64) ([]string, uint64, error) {
		command := c.redis.B().Scan().Cursor(cursor).Match(match).Count(int64(count)).Build()
		if clustered {
			command = command.SetSlot(key)
		}
		reply, err := c.ask(ctx, command)
		if err != nil {
			return nil, 0, err
		}
		page, err := reply.AsScanEntry()
		return page.Elements, page.Cursor, err
	}
	if clustered {
		return redisstore.ScanCluster(ctx, from, c.masters, scan)
	}
	return redisstore.ScanServer(ctx, from, scan)
}

// masters returns the first slot of each master.
func (c *client) masters(ctx context.Context) ([]int, error) {
	reply, err := c.ask(ctx, c.redis.B().ClusterSlots().Build())
	if err != nil {
		return nil, err
	}
	ranges, err := reply.ToArray()
	if err != nil {
		return nil, err
	}
	first := map[string]int64{}
	for _, r := range ranges {
		// First and last slot, and the nodes, the master before its replicas: address, port, ID.
		parts, err := r.ToArray()
		if err != nil || len(parts) < 3 {
			return nil, errSlots
		}
		slot, slotErr := parts[0].AsInt64()
		node, nodeErr := parts[2].ToArray()
		if slotErr != nil || nodeErr != nil || len(node) < 3 {
			return nil, errSlots
		}
		id, err := node[2].ToString()
		if err != nil {
			return nil, errSlots
		}
		if known, ok := first[id]; !ok || slot < known {
			first[id] = slot
		}
	}
	var all []int
	for _, slot := range first {
		all = append(all, int(slot))
	}
	return all, nil
}

var errSlots = errors.New("rueidisstore: the cluster's slots cannot be read")
