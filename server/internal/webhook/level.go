package webhook

import "time"

// Thresholds say when the pressure on a rule is high. Between the two it stays what it was,
// so that a pressure that swings around one of them is told once.
type Thresholds struct {
	// Above is the pressure from which it is high; Below that under which it is no longer so.
	Above, Below float64
	// For is how long it must be there to count.
	For time.Duration
}

// level is whether the pressure on one rule is high.
type level struct {
	high    bool
	changed time.Time
	since   time.Time // when the pressure began to ask for a change; zero if it does not
	last    float64

	told     bool // what the last message said
	reminded time.Time
}

// look takes in the pressure that there is now.
func (l *level) look(now time.Time, pressure float64, t Thresholds) {
	l.last = pressure
	asks := pressure >= t.Above
	if l.high {
		asks = pressure < t.Below
	}
	switch {
	case !asks:
		l.since = time.Time{}
		return
	case l.since.IsZero() || now.Before(l.since):
		l.since = now
	}
	if now.Sub(l.since) >= t.For {
		l.set(now, !l.high)
	}
}

func (l *level) set(now time.Time, high bool) {
	l.high, l.changed, l.since = high, now, time.Time{}
}
