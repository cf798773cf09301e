// Package accept opens listeners and accepts their connections: at addresses and Unix sockets, with bounds for all
// connections and for each client, with headers of the PROXY protocol, and without losing a connection when the server
// drains.
package accept
