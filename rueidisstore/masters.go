package rueidisstore

import (
	"context"
	"errors"
	"math"
	"net"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/redisstore"
)

// errSlots reports a reply to CLUSTER SLOTS that cannot be read.
var errSlots = errors.New("rueidisstore: the cluster's slots cannot be read")

// at sends a command without keys to the node of a cluster that a key belongs to.
func (c *Client) at(key string, command rueidis.Completed) rueidis.Completed {
	if c.Cluster() {
		return command.SetSlot(key)
	}
	return command
}

// Info implements redisstore.Client; see there for its errors.
func (c *Client) Info(ctx context.Context, key string) (string, error) {
	return c.do(ctx, key, c.at(key, c.redis.B().Info().Build()))
}

// Scan implements redisstore.Client; see there for its errors.
func (c *Client) Scan(ctx context.Context, key string, cursor uint64, match string, count int) ([]string, uint64, error) {
	reply, err := c.call(ctx, key, c.at(key, c.redis.B().Scan().Cursor(cursor).Match(match).Count(int64(count)).Build()))
	if err != nil {
		return nil, 0, err
	}
	page, err := reply.AsScanEntry()
	return page.Elements, page.Cursor, err
}

// Masters implements redisstore.Client; see there for its errors.
func (c *Client) Masters(ctx context.Context) ([]redisstore.Master, error) {
	if !c.Cluster() {
		return []redisstore.Master{{}}, nil
	}
	reply, err := c.call(beside{ctx}, "", c.redis.B().ClusterSlots().Build())
	if err != nil {
		return nil, err
	}
	ranges, err := reply.ToArray()
	if err != nil {
		return nil, err
	}
	var all []redisstore.Master
	known := map[string]int{} // by the node's name in the cluster
	for i := range ranges {
		m, id, err := readRange(&ranges[i])
		if err != nil {
			return nil, err
		}
		if at, ok := known[id]; !ok {
			known[id] = len(all)
			all = append(all, m)
		} else {
			all[at].Slot = min(all[at].Slot, m.Slot)
			all[at].Ranges = append(all[at].Ranges, m.Ranges...)
		}
	}
	return all, nil
}

// readRange reads an entry of CLUSTER SLOTS: the first and the last slot, and the nodes. The
// master comes before its replicas. Each node has an address, a port, and a name in the cluster.
func readRange(r *rueidis.RedisMessage) (m redisstore.Master, id string, err error) {
	parts, err := r.ToArray()
	if err != nil || len(parts) < 3 {
		return m, "", errSlots
	}
	first, err := parts[0].AsInt64()
	if err != nil {
		return m, "", errSlots
	}
	last, err := parts[1].AsInt64()
	if err != nil {
		return m, "", errSlots
	}
	if first < 0 || last > math.MaxUint16 { // a cluster has fewer slots
		return m, "", errSlots
	}
	node, err := parts[2].ToArray()
	if err != nil || len(node) < 3 {
		return m, "", errSlots
	}
	if id, err = node[2].ToString(); err != nil {
		return m, "", errSlots
	}
	// A node may not have an address of its own; its reply has none then.
	host, _ := node[0].ToString()
	port, err := node[1].AsInt64()
	if err != nil {
		return m, "", errSlots
	}
	m = redisstore.Master{Address: id, Slot: int(first), Ranges: []redisstore.SlotRange{{First: int(first), Last: int(last)}}}
	if host != "" {
		m.Address = net.JoinHostPort(host, strconv.FormatInt(port, 10))
	}
	return m, id, nil
}
