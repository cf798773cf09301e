// Package redisfloor has the least that a limit in Redis can do. Limiters are
// measured against it: what they take beyond a floor is what their own work
// costs, and not what the server, the loopback and the client cost anyhow. It
// is for the benchmarks only.
package redisfloor
