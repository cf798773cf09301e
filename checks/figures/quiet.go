package figures

import "time"

// Quiet measures how much of the machine this process gets: the speed of each
// of two goroutines that only compute, over that of one. It is 1 on a quiet
// machine of two cores, and one half if something else takes a core.
func Quiet() float64 {
	alone := spin(1)
	for range 2 {
		alone = min(alone, spin(1))
	}
	return float64(alone) / float64(spin(2))
}

// spin returns how long so many goroutines take to compute something each.
func spin(goroutines int) time.Duration {
	const work = 500_000
	var sums [2][8]uint64 // a cache line each
	return Turn(goroutines, func(g int) {
		x := uint64(g) + 1
		for range work {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		sums[g][0] = x
	})
}
