package rueidisstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// The store of docs/guide.md: one of four processes that share a Redis.
func Example_guide() {
	shared, err := rueidisstore.New(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}, redisstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	local, err := memory.New(memory.Options{})
	if err != nil {
		log.Fatal(err)
	}
	store, err := guard.New(guard.Options{
		Store:    shared,
		Local:    local,
		Share:    sluice.Share{Of: 1, Parts: 4}, // this is one of four processes
		Fallback: func(*sluice.Limit) sluice.Fallback { return sluice.FallbackLocal },
	})
	if err != nil {
		log.Fatal(err)
	}
	limiter := sluice.NewLimiter(store, sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(100)}))

	d, err := limiter.Allow(context.Background(), sluice.StringKey("192.0.2.1"))
	fmt.Println(d.Allowed, d.Degraded, err)
}
