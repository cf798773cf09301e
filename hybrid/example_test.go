package hybrid_test

import (
	"context"
	"log"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/hybrid"
)

// shared is the store that all processes share, such as one of package rueidisstore.
var shared driver.Grantor

func ExampleNew() {
	store, err := hybrid.New(shared, hybrid.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := sluice.MustLimit("everybody", sluice.TokenBucket{Rate: sluice.PerSecond(50_000)}).WithHybrid(sluice.Hybrid{})
	if err != nil {
		log.Fatal(err)
	}
	limiter := sluice.NewLimiter(store, limit)
	d, err := limiter.Allow(context.Background(), sluice.Key{})
	switch {
	case err != nil:
		log.Print(err)
	case !d.Allowed:
		log.Printf("try again in %v", d.RetryAfter)
	}

	// At the end of the program, return the units in hand: other processes can use them at once.
	if err := store.Drain(context.Background()); err != nil {
		log.Print(err)
	}
	_ = store.Close()
}
