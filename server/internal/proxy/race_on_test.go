//go:build race

package proxy

// rates are those that bodies are passed on at: what the race detector leaves time for on any
// machine.
var rates = []int64{1 * megabyte, 20 * megabyte}
