// Package vectors runs the conformance vectors that testdata/vectors tells in words, over a store
// in memory and over a real Redis. Those that are told step by step run beside the library.
package vectors
