//go:build !race

package proxy

// rates are those that bodies are passed on at.
var rates = []int64{1 * megabyte, 100 * megabyte}
