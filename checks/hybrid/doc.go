// Package hybrid tests hybrid limits with real processes and real servers: processes that are killed
// and stopped, a server that stops, fails over, moves its slots or has a wrong clock. Each process
// writes what it admits to a ledger, and the laws of package fleet bound what all ledgers together hold.
package hybrid
