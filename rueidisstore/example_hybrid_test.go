package rueidisstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// A hybrid limit is decided in this process, on units that Redis has granted to it before. All processes together never
// admit more than the limit.
func Example_hybrid() {
	shared, err := rueidisstore.New(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}, redisstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	store, err := hybrid.New(shared, hybrid.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := sluice.NewLimit("api", sluice.TokenBucket{Rate: sluice.PerSecond(1000)})
	if err != nil {
		log.Fatal(err)
	}
	if limit, err = limit.WithHybrid(sluice.Hybrid{Sync: 50 * time.Millisecond}); err != nil {
		log.Fatal(err)
	}
	limiter := sluice.NewLimiter(store, limit)

	d, err := limiter.Allow(context.Background(), sluice.StringKey("tenant-7"))
	fmt.Println(d.Allowed, err)

	// At the end of the program, the other processes get the units that are left.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	fmt.Println(store.Drain(ctx), store.Close(), shared.Close())
}
