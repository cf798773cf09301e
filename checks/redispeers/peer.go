package redispeers

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice/checks/peers"
)

// Limiter is a limiter at work. It is safe for concurrent use.
type Limiter interface {
	// Take takes one unit for key and reports whether it was admitted.
	Take(ctx context.Context, key string) (bool, error)
}

// Peer is a limiter that can be made.
type Peer struct {
	Name   string // as the tables show it
	Module string // the Go module it comes from

	// New makes one over a server. Its connections are those of client, if the
	// peer can use them, and else its own, which end ends.
	New func(client *redis.Client, l peers.Limit) (limiter Limiter, end func() error, err error)
}

// All returns every peer.
func All() []Peer {
	return []Peer{
		{"go-redis/redis_rate", "github.com/go-redis/redis_rate/v10", newRedisRate},
		{"ulule/limiter", "github.com/ulule/limiter/v3", newUlule},
		{"sethvargo/go-redisstore", "github.com/sethvargo/go-redisstore", newSethvargo},
		{"throttled", "github.com/throttled/throttled/v2", newThrottled},
	}
}

// nothing ends a peer that holds nothing of its own.
func nothing() error { return nil }
