// Package floor holds the least a decision can cost on this machine. A floor
// is no rate limiter to use: it leaves out everything that is not needed to
// measure its own definition, and says here what that is.
//
//   - Table (floor-table): one 64-bit hash of the key, one slot of a lock-free,
//     pointer-free table found and compare-and-swapped. No clock.
//   - Decision (floor-decision): one 128-bit hash of the key, one clock read, one
//     slot found by its 128-bit identity and compare-and-swapped.
//
// Both have a fixed size: they neither grow, nor expire, nor forget. A key
// that finds no free slot is denied.
package floor
