// Package calls tests the rules of a file on calls of gRPC: the rules that docs/guide.md shows.
package calls
