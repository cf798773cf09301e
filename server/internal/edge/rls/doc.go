// Package rls is the edge for Envoy's rate limit service, version 3: ShouldRateLimit over gRPC, and the same over HTTP
// with JSON. It translates descriptors, decides all descriptors of a call as one, and translates the verdict.
//
// The package reads and writes the bytes of the messages itself. That is several times faster than the generated code, and
// gives fields that the generated code does not have yet: see docs/adr/0041.
package rls
