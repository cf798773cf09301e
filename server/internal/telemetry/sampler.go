package telemetry

import (
	"sync"
	"time"
)

// Sampler bounds how many lines a log gets: the first few of each second. It is
// safe for concurrent use.
type Sampler struct {
	perSecond int

	mu     sync.Mutex
	second time.Time // when the current second began
	lines  int       // lines written in it
	hidden int       // what was left out since the last line
}

// NewSampler returns a sampler of up to perSecond lines a second; zero lets none
// pass.
func NewSampler(perSecond int) *Sampler { return &Sampler{perSecond: perSecond} }

// Take asks whether a line may be written now, and how many were left out since
// the last one.
func (s *Sampler) Take(now time.Time) (hidden int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := now.Sub(s.second); since >= time.Second || since < 0 {
		s.second, s.lines = now, 0
	}
	if s.lines >= s.perSecond {
		s.hidden++
		return 0, false
	}
	s.lines++
	hidden, s.hidden = s.hidden, 0
	return hidden, true
}
