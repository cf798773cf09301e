// Package peers puts other rate limiters of the Go world behind small interfaces, so that the
// benchmarks can measure them beside Sluice. Each is configured as its documentation recommends: a
// Peer for one process and unbounded in keys, a RedisPeer with its state in Redis.
package peers
