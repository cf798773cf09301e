// Package memory keeps the state of limits in this process, bounded and exact. However many keys
// there are, it causes no allocation and no work for the garbage collector. The shortest way to
// use it is NewLimiter.
//
// A seeded hash spreads the keys over stripes. Each stripe is a table of 32-byte entries under a
// lock of its own. An entry holds 128 bits that identify the key and the limit's version, and the
// state. A state of more than two words is kept in a slab. Nothing runs in the background.
// Operations move a few entries of a growing table at a time, and sweep a few.
//
// A state that time has made equal to a fresh one stays, because most keys return: decisions about a
// key that has an entry are quick. It is given up if its table is crowded, if memory is short, or
// after twenty seconds. So a store with few requests is small again within a minute.
//
// If the bound is reached and no state equals a fresh one, new keys share one state per limit, or
// are denied, as Options say. A key that has used some of its units is never forgotten.
//
// Store.Save and Load keep the states over a restart of the program. A Saver writes only the states
// that have changed.
package memory
