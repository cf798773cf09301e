// Package telemetry counts decisions, logs a sample of denials, and remembers the keys that were denied lately.
// Metrics have only rules and outcomes as labels. Logs contain only fingerprints of keys.
package telemetry
