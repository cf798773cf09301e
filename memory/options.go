package memory

import (
	"fmt"
	"runtime"
)

// Options are the settings of a Store. The zero Options are the defaults.
type Options struct {
	// MaxBytes bounds the memory of all states, old and new tables of a growing
	// shard included. Default: 256 MiB, which holds some six million keys. The least is 1 MiB.
	MaxBytes int64
	// DenyWhenFull denies new keys, with sluice.ReasonTableFull, when the bound is
	// reached and no state can be given up. Otherwise they share one budget for each
	// limit, and their decisions say Overflow.
	DenyWhenFull bool
	// Shards is the number of tables, each with a lock of its own, rounded up to a
	// power of two. Decisions about keys that are there lock no table. Default: 4 for
	// each CPU, 8 at least.
	Shards int
	// Clock tells the time in microseconds since the epoch. It is read on each
	// decision, with an entry or a shard locked: it must not block, nor call the store.
	// Default: the wall clock when the store was made, and the monotonic clock since,
	// which never goes back and follows the wall clock when that is found ahead.
	Clock func() int64
}

const (
	defaultBytes = 256 << 20
	leastBytes   = 1 << 20
	mostShards   = 1 << 12
)

// complete checks the options and fills in the defaults.
func (o *Options) complete() error {
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultBytes
	}
	if o.MaxBytes < leastBytes {
		return fmt.Errorf("memory: MaxBytes is %d; give %d or more, or 0 for the default", o.MaxBytes, leastBytes)
	}
	if o.Shards == 0 {
		o.Shards = max(8, 4*runtime.GOMAXPROCS(0))
	}
	if o.Shards < 1 || o.Shards > mostShards {
		return fmt.Errorf("memory: Shards is %d; give 1 to %d, or 0 for the default", o.Shards, mostShards)
	}
	n := 1
	for n < o.Shards {
		n *= 2
	}
	o.Shards = n
	return nil
}
