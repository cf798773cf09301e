// Package laws checks the memory store against docs/semantics.md, through its API, with random limits,
// schedules and requests. Its tests compare each decision with the oracle, and check the laws that need
// no oracle, such as the bound of every interval. Each test is a native fuzz target too.
package laws
