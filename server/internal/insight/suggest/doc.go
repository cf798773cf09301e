// Package suggest finds limits that fit the traffic of a log: what each client needed, and what a limit would have denied.
package suggest

// grid are the rates that are tried, in units a period.
var grid = func() (counts []int64) {
	for power := int64(1); power <= 1_000_000; power *= 10 {
		counts = append(counts, power, 2*power, 5*power)
	}
	return counts
}()
