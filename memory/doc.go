// Package memory keeps the state of limits in this process: bounded, exact, and
// free of allocation and of work for the garbage collector, however many keys come.
//
// Keys are spread over shards by a seeded hash, each a table of 32-byte entries
// under a lock of its own. An entry holds 128 bits of identity, of the key and of the
// limit's version, and the state itself; states that need more than two words
// lie in slabs. Tables grow a few entries at a time with the operations that use them.
// Nothing runs in the background: states that time has made equal to fresh ones
// are swept by the operations too.
//
// When the bound is reached and no fresh-equal state can be given up, new keys share
// one budget for each limit, or are denied, as Options say. A key that has used
// some of its budget is never forgotten.
package memory
