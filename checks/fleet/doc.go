// Package fleet runs processes that share limits, for tests and benchmarks. A process decides through
// one subject: hybrid limits, exact ones in Redis, memory, or a naive store that counts locally and
// synchronises now and then. It writes each admitted request to a ledger that outlives it. The
// package also has the laws: how much of a limit any interval of a ledger may hold.
//
// The program of the caller is the program of the processes: its main function, or TestMain, calls Main
// first. A subject that needs libraries of its own has a program of its own, which calls MainWith.
package fleet
