// Package laws holds the memory store, through its API, to what docs/semantics.md
// says, with random limits, schedules and requests: its tests compare each answer with
// oracles that compute in rationals, and check the laws that need no oracle, such
// as the most that any interval may see. Each is a native fuzz target too.
package laws
