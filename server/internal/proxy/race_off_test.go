//go:build !race

package proxy

// rates are the rates at which tests pass bodies on.
var rates = []int64{1 * megabyte, 100 * megabyte}
