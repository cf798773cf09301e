//go:build race

package proxy

// rates are the rates at which tests pass bodies on: the race detector leaves time for no more on
// some machines.
var rates = []int64{1 * megabyte, 20 * megabyte}
