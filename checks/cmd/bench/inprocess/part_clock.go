package inprocess

import "time"

// measureClock times the clock itself, the largest single piece of a floor.
func measureClock(b *bench) error {
	if !b.wants("clock", "clock") {
		return nil
	}
	const ops = 1_000_000
	anchor := time.Now()
	var sum int64
	for name, stat := range b.race(1, []contender{
		{"time.Since", ops, func(_, ops int) {
			for range ops {
				sum += int64(time.Since(anchor))
			}
		}},
		{"time.Now", ops, func(_, ops int) {
			for range ops {
				sum += time.Now().UnixNano()
			}
		}},
	}) {
		b.results.Set("clock", name, stat)
	}
	return nil
}
