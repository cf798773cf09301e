// Package schemas tests the description of the decision API, and the JSON Schema of configurations, with the tools of others:
// linters, validators, and clients that are generated from the description.
package schemas
