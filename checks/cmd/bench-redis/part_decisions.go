package main

import (
	"context"
	"time"

	"github.com/sluicehq/sluice/checks/peers"
)

// The limits never deny during a run, and give back so little that no state
// becomes fresh and goes: each decision reads a state and writes another.
var (
	keysLimit = peers.Limit{Burst: 1_000_000, Every: time.Minute, Window: 24 * time.Hour}
	hotLimit  = peers.Limit{Burst: 100_000_000, Every: time.Second, Window: 24 * time.Hour}
)

// measureKeys times decisions over many keys.
func measureKeys(ctx context.Context, b *bench) error {
	return b.measureDecisions(ctx, "keys", subjects(), keysLimit, b.keys, b.callers)
}

// measureHot times decisions on one key.
func measureHot(ctx context.Context, b *bench) error {
	return b.measureDecisions(ctx, "hot", subjects(), hotLimit, 1, b.callers)
}

// measureBatch times decisions of four limits of a key at once, over many keys.
func measureBatch(ctx context.Context, b *bench) error {
	return b.measureDecisions(ctx, "batch", batchSubjects(), keysLimit, b.keys, []int{barCallers})
}

func (b *bench) measureDecisions(ctx context.Context, part string, among []subject, l peers.Limit, keys int, callers []int) error {
	if err := b.flush(ctx); err != nil {
		return err
	}
	contenders, end, err := b.enter(ctx, part, among, l, keys, callers)
	if err != nil {
		return err
	}
	defer end()
	return b.race(ctx, part, contenders, callers)
}
