package redispeers

import (
	"context"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-redisstore"

	"github.com/sluicehq/sluice/checks/peers"
)

// sethvargo is a store of fixed windows, one per key, that open with the key's
// first request.
type sethvargo struct{ store limiter.Store }

// newSethvargo brings a pool that waits for a connection and keeps it, with as
// many as the other peers have. The pool that the store makes for itself opens
// a connection for each request, sends a PING before each script, and fails
// with more than 100 callers.
func newSethvargo(client *redis.Client, l peers.Limit) (Limiter, func() error, error) {
	o := client.Options()
	s, err := redisstore.NewWithPool(&redisstore.Config{Tokens: uint64(l.Burst), Interval: l.Window}, &redigo.Pool{
		MaxActive: o.PoolSize,
		MaxIdle:   o.PoolSize,
		Wait:      true,
		Dial:      func() (redigo.Conn, error) { return redigo.Dial(o.Network, o.Addr) },
	})
	if err != nil {
		return nil, nil, err
	}
	return sethvargo{s}, func() error { return s.Close(context.Background()) }, nil
}

func (s sethvargo) Take(ctx context.Context, key string) (bool, error) {
	_, _, _, ok, err := s.store.Take(ctx, key)
	return ok, err
}
