//go:build !race

package proxy

// rates are the rates at which tests forward bodies.
var rates = []int64{1 * megabyte, 100 * megabyte}
