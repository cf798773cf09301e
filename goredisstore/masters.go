package goredisstore

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/redisstore"
)

// at returns a client to the node of a cluster that a key belongs to.
func (c *Client) at(ctx context.Context, key string) (redis.UniversalClient, error) {
	cluster, ok := c.redis.(*redis.ClusterClient)
	if !ok {
		return c.redis, nil
	}
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, explainRead(err)
	}
	return node, nil
}

// Info implements redisstore.Client, with its errors.
func (c *Client) Info(ctx context.Context, key string) (string, error) {
	node, err := c.at(ctx, key)
	if err != nil {
		return "", err
	}
	text, err := node.Info(ctx).Result()
	return text, explainRead(err)
}

// Scan implements redisstore.Client, with its errors.
func (c *Client) Scan(ctx context.Context, key string, cursor uint64, match string, count int) (keys []string, next uint64, err error) {
	node, err := c.at(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	keys, next, err = node.Scan(ctx, cursor, match, int64(count)).Result()
	return keys, next, explainRead(err)
}

// Masters implements redisstore.Client, with its errors.
func (c *Client) Masters(ctx context.Context) ([]redisstore.Master, error) {
	cluster, ok := c.redis.(*redis.ClusterClient)
	if !ok {
		return []redisstore.Master{{}}, nil
	}
	command := redis.NewClusterSlotsCmd(ctx, "cluster", "slots") // CLUSTER SHARDS is not there before Redis 7
	command.SetStepCount(1)                                      // otherwise go-redis requests it from a server
	_ = cluster.Process(ctx, command)                            // the command has the error
	ranges, err := command.Result()
	if err != nil {
		return nil, explainRead(err)
	}
	var all []redisstore.Master
	known := map[string]int{} // by the node's name in the cluster
	for _, r := range ranges {
		if len(r.Nodes) == 0 {
			continue
		}
		node := r.Nodes[0] // the master
		slots := redisstore.SlotRange{First: r.Start, Last: r.End}
		if at, ok := known[node.ID]; ok {
			all[at].Slot = min(all[at].Slot, r.Start)
			all[at].Ranges = append(all[at].Ranges, slots)
			continue
		}
		m := redisstore.Master{Address: node.Addr, Slot: r.Start, Ranges: []redisstore.SlotRange{slots}}
		if m.Address == "" || strings.HasPrefix(m.Address, ":") {
			m.Address = node.ID // the node does not have its own address
		}
		known[node.ID] = len(all)
		all = append(all, m)
	}
	return all, nil
}

// explainRead turns the error of a command that changes nothing into an error of redisstore.
func explainRead(err error) error {
	if err == nil {
		return nil
	}
	return (&once{read: true}).explain(err)
}
