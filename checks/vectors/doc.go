// Package vectors replays the conformance vectors of the rate limiters that Sluice replaces. Every
// vector runs over a store in memory and over a real Redis. SLUICE_VECTORS names another file of
// the same format:
//
//	SLUICE_VECTORS=/tmp/more.json go -C checks test -run TestVectorsAreReplayed -v ./vectors
package vectors
