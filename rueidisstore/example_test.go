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

// The address is that of a server, or of some nodes of a cluster: rueidis finds out.
func ExampleNew() {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{"127.0.0.1:6379"},
		DisableCache: true, // scripts have no use for it
	})
	if err != nil {
		log.Fatal(err)
	}
	store, err := rueidisstore.New(client, redisstore.Options{Prefix: "shop"})
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
	client.Close()
}

// Sentinels say who the master is, also after another became it.
func ExampleNew_sentinel() {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"},
		Sentinel:     rueidis.SentinelOption{MasterSet: "mymaster"},
		DisableCache: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	store, err := rueidisstore.New(client, redisstore.Options{})
	fmt.Println(store != nil, err)
	client.Close()
}

// The user needs no more than what package redisstore says.
func ExampleNew_tlsAndUser() {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{"redis.example.com:6380"},
		TLSConfig:    &tls.Config{MinVersion: tls.VersionTLS12},
		Username:     "limiter",
		Password:     "secret",
		DisableCache: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	store, err := rueidisstore.New(client, redisstore.Options{})
	fmt.Println(store != nil, err)
	client.Close()
}

// A path takes the place of the address.
func ExampleNew_unixSocket() {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"/run/redis/redis.sock"},
		DialCtxFn: func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		},
		DisableCache: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	store, err := rueidisstore.New(client, redisstore.Options{})
	fmt.Println(store != nil, err)
	client.Close()
}
