package sluice_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// The first limiter of docs/guide.md, in its long form.
func Example_limiter() {
	store, err := memory.New(memory.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := sluice.NewLimit("api", sluice.TokenBucket{Rate: sluice.PerMinute(100), Burst: 20})
	if err != nil {
		log.Fatal(err)
	}
	limiter := sluice.NewLimiter(store, limit)

	d, err := limiter.Allow(context.Background(), sluice.StringKey("alice"))
	if err != nil {
		log.Fatal(err) // nothing was decided
	}
	if !d.Allowed {
		fmt.Println("come back in", d.RetryAfter)
		return
	}
	fmt.Println("welcome;", d.Remaining, "left")
	// Output: welcome; 19 left
}
