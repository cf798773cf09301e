// Package telemetry counts what is decided and logs a sample of what is denied.
// Its labels are rules and outcomes, which are few; keys appear in logs as seeded
// fingerprints only, and in metrics not at all.
package telemetry
