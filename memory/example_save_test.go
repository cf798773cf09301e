package memory_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
)

// A program saves its states before it ends, and continues with them when it starts again.
func ExampleLoad() {
	ctx := context.Background()
	limit := sluice.MustLimit("api", sluice.TokenBucket{Rate: sluice.PerDay(100)})
	store, err := memory.New(memory.Options{})
	if err != nil {
		panic(err)
	}
	limiter := sluice.NewLimiter(store, limit)
	if _, err := limiter.AllowN(ctx, sluice.StringKey("alice"), 70); err != nil {
		panic(err)
	}

	var file bytes.Buffer // a file of mode 0600
	if err := store.Save(&file); err != nil {
		panic(err)
	}

	// In the next process:
	store, _, err = memory.Load(&file, memory.Options{})
	if err != nil {
		panic(err) // or log it, and go on with memory.New
	}
	d, err := sluice.NewLimiter(store, limit).AllowN(ctx, sluice.StringKey("alice"), 10)
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Allowed, d.Remaining)
	// Output: true 20
}
