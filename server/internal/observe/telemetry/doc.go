// Package telemetry counts decisions and logs a sample of denials.
// Metrics have only rules and outcomes as labels. Logs contain only fingerprints of keys.
package telemetry
