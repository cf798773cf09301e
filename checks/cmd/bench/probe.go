package main

import "time"

// probe measures how much of the machine two goroutines get: the speed of each
// of two that only compute, over that of one. It is 1 on a quiet machine of two
// cores, and one half if something else takes a core.
func probe() float64 {
	const work = 500_000
	var sums [goroutines][8]uint64 // a cache line each
	spin := func(g int) {
		x := uint64(g) + 1
		for range work {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		sums[g][0] = x
	}
	alone := best(3, func() time.Duration { return turn(1, spin) })
	return float64(alone) / float64(turn(goroutines, spin))
}

// best returns the shortest of n times.
func best(n int, measure func() time.Duration) time.Duration {
	shortest := measure()
	for range n - 1 {
		shortest = min(shortest, measure())
	}
	return shortest
}
