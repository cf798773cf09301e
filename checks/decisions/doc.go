// Package decisions holds stores on real Redis and Valkey servers to decide as the memory
// store does: by the contract of a store, and by random walks of both stores side by side.
// A walk has one goroutine, and the contract's concurrency is tested with the race
// detector elsewhere, so these tests run without it.
package decisions
