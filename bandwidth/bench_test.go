package bandwidth_test

import (
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
)

// BenchmarkOverhead moves a megabyte in pieces of 32 KiB, as io.Copy does, at a rate
// so high that nothing waits: the rest is the cost of the calls.
func BenchmarkOverhead(b *testing.B) {
	const piece = 32 << 10
	for name, make := range movers {
		b.Run(name, func(b *testing.B) {
			move := make(b.Context(), piece, limiter(b, bandwidth.Options{Rate: sluice.PerSecond(1 << 42)}).Flow(key))
			b.ReportAllocs()
			b.SetBytes(1 << 20)
			for b.Loop() {
				for range (1 << 20) / piece {
					if _, err := move(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
