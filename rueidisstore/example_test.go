package rueidisstore_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// InitAddress has the address of one server, or of some nodes of a cluster. New detects which.
func ExampleNew() {
	store, err := rueidisstore.New(rueidis.ClientOption{
		InitAddress: []string{"127.0.0.1:6379"},
	}, redisstore.Options{Prefix: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := sluice.NewLimit("login", sluice.TokenBucket{Rate: sluice.PerMinute(5), Burst: 5})
	if err != nil {
		log.Fatal(err)
	}
	limiter := sluice.NewLimiter(store, limit)

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	decision, err := limiter.Allow(ctx, sluice.StringKey("192.0.2.1"))
	cancel()
	fmt.Println(decision.Allowed, err)
	_ = store.Close() // and its connections
}

// Sentinels report the address of the master, also after a failover.
func ExampleNew_sentinel() {
	store, err := rueidisstore.New(rueidis.ClientOption{
		InitAddress: []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"},
		Sentinel:    rueidis.SentinelOption{MasterSet: "mymaster"},
	}, redisstore.Options{})
	fmt.Println(store != nil, err)
}

// docs/redis.acl lists the permissions that the user needs.
func ExampleNew_tlsAndUser() {
	store, err := rueidisstore.New(rueidis.ClientOption{
		InitAddress: []string{"redis.example.com:6380"},
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS12},
		Username:    "limiter",
		Password:    "secret",
	}, redisstore.Options{})
	fmt.Println(store != nil, err)
}

// The address of a Unix socket is its path.
func ExampleNew_unixSocket() {
	store, err := rueidisstore.New(rueidis.ClientOption{
		InitAddress: []string{"/run/redis/redis.sock"},
		DialCtxFn: func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		},
	}, redisstore.Options{})
	fmt.Println(store != nil, err)
}
