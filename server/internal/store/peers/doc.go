// Package peers lets the servers of one Redis find each other, and answer questions of each other's operators, by
// records in Redis. No server connects to another one. See docs/adr/0076.
package peers
