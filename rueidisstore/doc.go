// Package rueidisstore keeps the state of limits in Redis or Valkey through the library
// rueidis, which sends the calls of many goroutines over few connections. It is the
// recommended way to use package redisstore; package goredisstore is the other.
//
// [New] takes the options of a rueidis client and connects. It does not take a client that
// exists already, because a client does not show whether it may send a script twice. The
// store has connections of its own, and its Close closes them.
//
// A script is sent once, whatever happens to the connection. It is sent again only if the
// server has refused to run it. After NOSCRIPT it is sent with its source; if a cluster
// redirects it, to another node.
package rueidisstore
