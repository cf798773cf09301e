package hybrid

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluicehq/sluice/driver"
)

// Options are the settings of a Store. The zero value is a good one.
type Options struct {
	// MaxKeys is how many keys are counted at once, 1 to 16,777,216. A key takes up to a kilobyte.
	// Further keys are decided by the wrapped store. Default: 65,536.
	MaxKeys int
	// Deadline is how long a call of the background synchronisation may take, a millisecond to a
	// minute. Calls for a request have the context of the request. Default: 250ms.
	Deadline time.Duration
	// Holder identifies this process to the wrapped store. Two processes must not have the same
	// one at the same time. Default: a random number.
	Holder uint64
	// Wall returns the wall clock of this computer in nanoseconds since the Unix epoch. It is for
	// tests: a grant ends by the monotonic clock or by this clock, whichever is earlier. Default:
	// the clock of time.Now.
	Wall func() int64
	// Seed makes the random numbers repeatable. It is for tests. Default: a random number.
	Seed uint64
}

const (
	defaultKeys     = 1 << 16
	mostKeys        = 1 << 24
	defaultDeadline = 250 * time.Millisecond
)

// complete checks the options and fills in the defaults.
func (o *Options) complete(backend driver.Grantor) error {
	if backend == nil {
		return errors.New("hybrid: New has no store; give one that grants units, such as one of package rueidisstore")
	}
	if _, ok := backend.(*Store); ok {
		return errors.New("hybrid: the store to wrap is a hybrid store itself; give the store that it wraps")
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = defaultKeys
	}
	if o.MaxKeys < 1 || o.MaxKeys > mostKeys {
		return fmt.Errorf("hybrid: Options.MaxKeys is %d; give 1 to %d, or 0 for %d", o.MaxKeys, mostKeys, defaultKeys)
	}
	if o.Deadline == 0 {
		o.Deadline = defaultDeadline
	}
	if o.Deadline < time.Millisecond || o.Deadline > time.Minute {
		return fmt.Errorf("hybrid: Options.Deadline is %v; give %v to %v, or 0 for %v", o.Deadline, time.Millisecond, time.Minute, defaultDeadline)
	}
	for o.Holder == 0 {
		o.Holder = rand.Uint64()
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	return nil
}
