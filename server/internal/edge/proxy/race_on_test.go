//go:build race

package proxy

// rates are the rates at which tests forward bodies. They are lower because the race detector
// needs much of the time.
var rates = []int64{1 * megabyte, 20 * megabyte}
