package memory

import (
	"fmt"
	"math"
	"runtime"
)

// Options are the settings of a Store. The zero Options are the defaults.
type Options struct {
	// MaxBytes bounds the memory of all states, including the old and the new table of a growing
	// stripe. The minimum is 1 MiB. Processors of 32 bits have addresses for less than 2 GiB.
	// Default: 256 MiB, which holds some six million keys.
	MaxBytes int64
	// DenyWhenFull denies new keys, with sluice.ReasonTableFull, when the bound is reached and no
	// state can be swept. Without it, new keys share one state per limit, and their decisions
	// have Overflow set.
	DenyWhenFull bool
	// Stripes is the number of tables, each with a lock of its own, rounded up to a power of two.
	// Most decisions about keys that have an entry lock no table. Default: 4 per CPU, at least 8.
	Stripes int
	// Clock returns the time in microseconds since the epoch. It is called for each decision, with
	// an entry or a stripe locked: it must not block, and must not call the store. Default: the
	// wall clock when the store was made plus the monotonic clock since then. The default never
	// goes back, and moves forward if the wall clock is ahead.
	Clock func() int64
}

const (
	defaultBytes = 256 << 20
	leastBytes   = 1 << 20
	mostStripes  = 1 << 12
)

// complete checks the options and fills in the defaults.
func (o *Options) complete() error {
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultBytes
	}
	if o.MaxBytes < leastBytes {
		return fmt.Errorf("memory: Options.MaxBytes is %d; give %d or more, or 0 for the default", o.MaxBytes, leastBytes)
	}
	if o.MaxBytes > math.MaxInt {
		return fmt.Errorf("memory: Options.MaxBytes is %d; this processor has addresses for less than %d", o.MaxBytes, math.MaxInt)
	}
	if o.Stripes == 0 {
		o.Stripes = max(8, 4*runtime.GOMAXPROCS(0))
	}
	if o.Stripes < 1 || o.Stripes > mostStripes {
		return fmt.Errorf("memory: Options.Stripes is %d; give 1 to %d, or 0 for the default", o.Stripes, mostStripes)
	}
	n := 1
	for n < o.Stripes {
		n *= 2
	}
	o.Stripes = n
	return nil
}
