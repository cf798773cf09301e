// Package retry repeats what failed at a store later, in timers: ends of leases that nobody waits for.
package retry

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Later repeats attempts until they succeed. It bounds how many are pending, and starts no
// goroutine that waits. Set the fields before the first use; it is safe for concurrent use then.
type Later struct {
	// Most is how many attempts may be pending at once.
	Most int64
	// First and Last are the first pause before an attempt and the longest. Pauses double, and
	// each is random between half of it and one and a half, so that a store that comes back is
	// not called by all at once.
	First, Last time.Duration

	pending atomic.Int64
}

// Start calls attempt after the first pause, and again after each further one, until it reports
// that it is done or until has passed. It reports whether there was room for it; if not, attempt
// is never called.
func (l *Later) Start(until time.Time, attempt func() (done bool)) bool {
	if l.pending.Add(1) > l.Most {
		l.pending.Add(-1)
		return false
	}
	l.after(l.First, until, attempt)
	return true
}

// Pending returns how many attempts are pending.
func (l *Later) Pending() int64 { return l.pending.Load() }

func (l *Later) after(pause time.Duration, until time.Time, attempt func() bool) {
	time.AfterFunc(pause/2+rand.N(pause), func() {
		if attempt() || !time.Now().Before(until) {
			l.pending.Add(-1)
			return
		}
		l.after(min(2*pause, l.Last), until, attempt)
	})
}
