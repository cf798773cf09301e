package hybrid

import (
	"sync/atomic"
	"time"
)

// trip estimates how long a call of the wrapped store takes, as TCP estimates its round trips: by
// a mean and a mean deviation (RFC 6298).
type trip struct {
	mean, deviation atomic.Int64
}

// firstTrip is the estimate before the first call.
const firstTrip = int64(time.Millisecond)

func (t *trip) took(d int64) {
	mean := t.mean.Load()
	if mean == 0 {
		t.mean.Store(d)
		t.deviation.Store(d / 2)
		return
	}
	// Calls that end at the same time may overwrite each other's sample.
	off := d - mean
	t.mean.Store(mean + off/8)
	t.deviation.Store(t.deviation.Load() + (max(off, -off)-t.deviation.Load())/4)
}

// slowest returns how long about 99 of 100 calls take at most.
func (t *trip) slowest() int64 {
	if t.mean.Load() == 0 {
		return firstTrip
	}
	return t.mean.Load() + 4*t.deviation.Load()
}

// patience returns how long a request waits for a call that another goroutine has made.
func (t *trip) patience() time.Duration {
	return time.Duration(max(int64(time.Millisecond), min(4*t.slowest(), 20*int64(time.Millisecond))))
}
