package memory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

func ExampleNewLimiter() {
	limiter, err := memory.NewLimiter("2/h")
	if err != nil {
		log.Fatal(err)
	}
	for _, user := range []string{"alice", "alice", "alice", "bob"} {
		d, err := limiter.Allow(context.Background(), sluice.StringKey(user))
		if err != nil {
			log.Fatal(err) // nothing was decided
		}
		fmt.Println(user, d.Allowed, d.Remaining)
	}
	// Output:
	// alice true 1
	// alice true 0
	// alice false 0
	// bob true 1
}
