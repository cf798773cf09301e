// Package live keeps what operators look at first: what each rule did in the last hour and day, and which keys were
// denied most.
package live
