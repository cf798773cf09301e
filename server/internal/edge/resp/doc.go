// Package resp is the edge for Redis clients. A Server speaks RESP2 and RESP3, decides CL.THROTTLE as the module
// redis-cell does, and decides rules of the file by SLUICE.CHECK. Clients of any language can use it.
//
// The server holds a bounded amount of memory for each connection: one buffer for commands, and one for replies.
// While a client does not read, the server reads no further commands from it.
package resp
