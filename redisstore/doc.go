// Package redisstore keeps the state of limits in a Redis or Valkey server, which any number
// of processes share. Most programs make a store with package rueidisstore or goredisstore,
// which bring the client. This package imports no client.
//
// A decision is one call of a script, and one round trip. The script reads the server's time
// once, decides, and writes the state with its time to live. It replies with the state that
// it decided upon. In this process, package algo computes the decision from that state. So
// all numbers equal the numbers of the memory store, and each decision of a script is
// checked.
//
// See docs/redis.md for operation, and docs/adr/0009 for the reasons of the design.
package redisstore
