// Package sampled logs what clients or failures can cause often: the first few lines of each second, and how many were
// left out.
package sampled

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// PerSecond bounds the lines of a Log each second.
const PerSecond = 10

// Log logs one kind of event, ten lines a second at most. Each line has the number of lines that were left out before
// it, as not_logged. It is safe for concurrent use.
type Log struct {
	logger  *slog.Logger
	sampler *Sampler
}

// New returns a log with a bound of its own, so that one kind of event does not hide another one.
func New(logger *slog.Logger) *Log { return &Log{logger, NewSampler(PerSecond)} }

// Error logs an event with pairs of attributes.
func (l *Log) Error(message string, args ...any) { l.log(slog.LevelError, message, args) }

// Warn does the same at the level of warnings.
func (l *Log) Warn(message string, args ...any) { l.log(slog.LevelWarn, message, args) }

// Info does the same at the level of information.
func (l *Log) Info(message string, args ...any) { l.log(slog.LevelInfo, message, args) }

func (l *Log) log(level slog.Level, message string, args []any) {
	if hidden, ok := l.sampler.Take(time.Now()); ok {
		l.logger.Log(context.Background(), level, message, append(args, "not_logged", hidden)...)
	}
}

// Sampler takes the first few of each second. It is safe for concurrent use.
type Sampler struct {
	perSecond int

	mu     sync.Mutex
	second time.Time // when the current second began
	lines  int       // lines written in it
	hidden int       // lines not written since the last line
}

// NewSampler returns a sampler that takes up to perSecond lines a second; 0 takes none.
func NewSampler(perSecond int) *Sampler { return &Sampler{perSecond: perSecond} }

// Take reports whether a line may be written now, and how many lines were not written since the last one.
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
