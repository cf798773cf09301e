// Package memory keeps the state of limits in this process: bounded, exact, and without
// allocation or work for the garbage collector, however many keys there are. The shortest way to
// use it is NewLimiter.
//
// A seeded hash spreads the keys over shards. Each shard is a table of 32-byte entries under a
// lock of its own. An entry holds 128 bits that identify the key and the limit's version, and the
// state itself; a state of more than two words is kept in a slab. A table grows a few entries at
// a time, with the operations that use it. Nothing runs in the background: operations also sweep
// states that time has made equal to fresh ones.
//
// If the bound is reached and no state equals a fresh one, new keys share one state per limit, or
// are denied, as Options say. A key that has used some of its units is never forgotten.
package memory
