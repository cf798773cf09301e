// Package retry repeats failed calls of a store later, in timers. No caller waits for these calls:
// they end leases, for example.
package retry

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Later repeats attempts until they succeed. It bounds how many attempts are pending, and starts
// no goroutine that waits. Set the fields before the first use; a Later is safe for concurrent use
// then.
type Later struct {
	// Most is how many attempts may be pending at once.
	Most int64
	// First is the first pause before an attempt, and Last the longest pause. Pauses double up to
	// Last. Each pause is multiplied by a random factor between 0.5 and 1.5, so that not all
	// attempts call a recovered store at once.
	First, Last time.Duration

	pending atomic.Int64
}

// Start calls attempt after the first pause, and again after each further pause. It stops when
// attempt returns true, or after an attempt that ends at the time until or later. Start reports
// whether there was room for the attempt; if not, attempt is never called.
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
