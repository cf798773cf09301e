package goredisstore_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/goredisstore"
	"github.com/sluicehq/sluice/redisstore"
)

// By default, go-redis tries a refused connection five times, a tenth of a second apart.
// Calls with short deadlines cannot wait for that: DialerRetries 1 makes it one try.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:6379",
		MaxRetries:            -1,
		ContextTimeoutEnabled: true,
		DialerRetries:         1,
	})
	store, err := goredisstore.New(client, redisstore.Options{Prefix: "shop"})
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
	_ = client.Close() // the program ends
}

// A client that the program has already, with the defaults of go-redis, would send commands
// again. Derive makes a second one from it that does not.
func ExampleDerive() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer client.Close()

	own, err := goredisstore.Derive(client)
	if err != nil {
		panic(err)
	}
	defer own.Close()
	store, err := goredisstore.New(own, redisstore.Options{Prefix: "shop"})
	fmt.Println(store != nil, err)
	// Output:
	// true <nil>
}

// New refuses a client that repeats commands. The error contains the remedy.
func ExampleNew_retries() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	_, err := goredisstore.New(client, redisstore.Options{})
	fmt.Println(err)
	// Output:
	// goredisstore: the client sends a command up to 3 times again, which charges twice: set MaxRetries to -1 in its options, or pass what Derive makes from it
}

// The client of a cluster does not repeat commands by default.
func ExampleNew_cluster() {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                 []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"},
		ContextTimeoutEnabled: true,
	})
	_, err := goredisstore.New(client, redisstore.Options{})
	fmt.Println(err)
	// Output:
	// <nil>
}

// Sentinels report the address of the master, also after a failover.
func ExampleNew_sentinel() {
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:            "mymaster",
		SentinelAddrs:         []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"},
		MaxRetries:            -1,
		ContextTimeoutEnabled: true,
	})
	_, err := goredisstore.New(client, redisstore.Options{})
	fmt.Println(err)
	// Output:
	// <nil>
}

// docs/redis.acl lists the permissions that the user needs.
func ExampleNew_tlsAndUser() {
	client := redis.NewClient(&redis.Options{
		Addr:                  "redis.example.com:6380",
		TLSConfig:             &tls.Config{MinVersion: tls.VersionTLS12},
		Username:              "limiter",
		Password:              "secret",
		MaxRetries:            -1,
		ContextTimeoutEnabled: true,
	})
	_, err := goredisstore.New(client, redisstore.Options{})
	fmt.Println(err)
	// Output:
	// <nil>
}

func ExampleNew_unixSocket() {
	client := redis.NewClient(&redis.Options{
		Network:               "unix",
		Addr:                  "/run/redis/redis.sock",
		MaxRetries:            -1,
		ContextTimeoutEnabled: true,
	})
	_, err := goredisstore.New(client, redisstore.Options{})
	fmt.Println(err)
	// Output:
	// <nil>
}
