// Package faults breaks Redis servers, clusters and the way to them under load, and holds
// stores and guards to what docs/failure-modes.md promises. Its concurrency is ours, so the
// tests run with the race detector.
package faults
