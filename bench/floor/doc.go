// Package floor holds the smallest work that a decision can cost on this machine. The benchmarks
// compare limiters with it: the difference is what a limiter itself costs. A floor is not a usable
// rate limiter, because it leaves out everything that its definition does not name.
//
// In this process:
//
//   - Table (floor-table): one 64-bit hash of the key, and one compare-and-swap in one entry of a
//     lock-free table without pointers. No clock.
//   - Decision (floor-decision): one 128-bit hash of the key, one reading of the clock, and one
//     compare-and-swap in the entry that has this identity.
//
// Both have a fixed size: they neither grow, nor expire, nor forget. A key that finds no free entry
// is denied.
//
// Proxy is the least that a proxy costs over net/http.
//
// In Redis: Minimal is a token bucket in one short script, Return1 a script that does nothing, and
// Batch reads and writes four states of a key.
package floor
