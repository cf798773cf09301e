package process

import (
	"sync/atomic"
	"testing"
	"time"
)

// Stalls measures how long the goroutines of this process could not run, because the machine was busy. Its methods are safe for
// concurrent use.
type Stalls struct {
	began     time.Time
	last, sum atomic.Int64 // when a tick came, and how late ticks were
}

// stallTick is the time between two ticks. A tick that is late by less is punctual.
const stallTick = 10 * time.Millisecond

// MeasureStalls measures until the test ends.
func MeasureStalls(tb testing.TB) *Stalls {
	tb.Helper()
	s := &Stalls{began: time.Now()}
	stop := make(chan struct{})
	tb.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case <-time.After(stallTick):
				now := s.now()
				s.sum.Add(late(now - s.last.Load()))
				s.last.Store(now)
			case <-stop:
				return
			}
		}
	}()
	return s
}

func (s *Stalls) now() int64 { return int64(time.Since(s.began)) }

// late returns by how much a tick is late that comes so long after the one before.
func late(after int64) int64 {
	if after < 2*int64(stallTick) {
		return 0
	}
	return after - int64(stallTick)
}

// Total returns the time since the measurement began in which goroutines could not run.
func (s *Stalls) Total() time.Duration {
	last := s.last.Load() // before sum: a stall may count twice, but is never missed
	return time.Duration(s.sum.Load() + late(s.now()-last))
}
