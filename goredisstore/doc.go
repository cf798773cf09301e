// Package goredisstore keeps the state of limits in Redis or Valkey through a client of the
// library go-redis. It is for programs that have such a client already; package
// rueidisstore is faster.
//
// [New] takes a client that sends no command twice and heeds the deadlines of contexts. By
// default, clients repeat commands and ignore such deadlines. [Derive] makes a suitable
// client from another client, to the same servers:
//
//	own, err := goredisstore.Derive(client)
//	…
//	defer own.Close()
//	store, err := goredisstore.New(own, redisstore.Options{})
//
// A script is sent once, whatever happens to the connection. It is sent again only if the
// server has refused to run it. After NOSCRIPT it is sent with its source; if a cluster
// redirects it, to another node.
package goredisstore
