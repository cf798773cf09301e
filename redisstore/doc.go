// Package redisstore keeps the state of limits in a Redis or Valkey server, which
// any number of processes share. Most programs make a store with package rueidisstore or
// goredisstore, which bring the client; this package needs none.
//
// A decision is one call of a script, and one round trip. The script reads the
// server's time once, decides, and writes the state with its time to live. It replies with the
// state that it decided upon, from which package algo computes the answer here: so the
// numbers are those of the memory store, and the script's verdict is checked against them.
//
// See docs/redis.md for running it, and docs/adr/0009 for its design.
package redisstore
