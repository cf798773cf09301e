// Package rueidisstore keeps the state of limits in Redis or Valkey through a client
// of the library rueidis, which sends the calls of many goroutines over few
// connections. It is the recommended way to use package redisstore; package
// goredisstore is the other.
//
// A script is sent once, whatever becomes of the connection, and again only where
// the server has refused to run it: without the source after NOSCRIPT, and to another
// node where a cluster says so.
package rueidisstore
