// Package redistest runs real Redis or Valkey servers for tests and benchmarks: one
// server, a cluster, a master under sentinels, and a proxy that makes faults on the
// way to them. Nothing here pretends to be a server.
//
// SLUICE_REDIS_SERVER names the path of the program. Without it, the program is redis-server
// in PATH without it. Servers listen on free loopback ports, keep nothing on disk,
// and end with the test: also when they were stopped by a signal, and on Linux also
// when the test's process is killed. It needs Unix signals.
package redistest
