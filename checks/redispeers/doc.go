// Package redispeers puts other rate limiters of the Go world that keep their
// state in Redis behind one small interface, each configured as its
// documentation recommends, so that they can be measured beside ours. It is for
// the benchmarks only.
package redispeers
