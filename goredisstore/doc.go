// Package goredisstore keeps the state of limits in Redis or Valkey through a client
// of the library go-redis. Package rueidisstore is faster; this one is for
// programs that have a go-redis client already.
//
// A script is sent once, whatever becomes of the connection, and again only where
// the server has refused to run it: without the source after NOSCRIPT, and to another
// node where a cluster says so.
package goredisstore
