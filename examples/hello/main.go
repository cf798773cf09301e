// Hello limits a client to 100 requests a minute. It is the program in README.md.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

func main() {
	limiter, err := memory.NewLimiter("100/m")
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Allow(context.Background(), sluice.StringKey("alice"))
	if err != nil {
		log.Fatal(err) // nothing was decided
	}
	if !d.Allowed {
		fmt.Println("come back in", d.RetryAfter)
		return
	}
	fmt.Println("welcome;", d.Remaining, "left")
}
