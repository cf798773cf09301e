package peers

import (
	"context"
	"net/http"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/sethvargo/go-redisstore"
)

// sethvargo is a store of fixed windows, one per key, that open with the
// key's first request.
type sethvargo struct{ store limiter.Store }

func newSethvargo(l Limit) (Limiter, error) {
	store, err := newSethvargoStore(l)
	return sethvargo{store}, err
}

func newSethvargoStore(l Limit) (limiter.Store, error) {
	return memorystore.New(&memorystore.Config{Tokens: uint64(l.Burst), Interval: l.Window})
}

func (s sethvargo) Take(key string) bool {
	_, _, _, ok, err := s.store.Take(context.Background(), key)
	return ok && err == nil
}

// Close ignores the store's error: closing memory cannot fail.
func (s sethvargo) Close() { _ = s.store.Close(context.Background()) }

func sethvargoMiddleware(l Limit) (func(http.Handler) http.Handler, error) {
	store, err := newSethvargoStore(l)
	if err != nil {
		return nil, err
	}
	m, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	if err != nil {
		return nil, err
	}
	return m.Handle, nil
}

// sethvargoRedis is a store of fixed windows, one per key, that open with the key's
// first request.
type sethvargoRedis struct{ store limiter.Store }

// newSethvargoRedis uses a pool that waits for connections and keeps them, with as many connections as
// the other peers have. The store's own pool opens a connection per request, sends a PING before each
// script, and fails with more than 100 callers.
func newSethvargoRedis(client *redis.Client, l Limit) (RedisLimiter, func() error, error) {
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
	return sethvargoRedis{s}, func() error { return s.Close(context.Background()) }, nil
}

func (s sethvargoRedis) Take(ctx context.Context, key string) (bool, error) {
	_, _, _, ok, err := s.store.Take(ctx, key)
	return ok, err
}
