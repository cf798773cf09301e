package oracle

import (
	"fmt"
	"math"
)

// room returns how many units a state has not used, rounded down. It is negative if the limit is exceeded.
func room(s State, now int64) int64 {
	switch s := s.(type) {
	case Bucket:
		tokens, _ := s.refilled(now)
		return Down(tokens)
	case Window:
		w, _ := s.at(now)
		return s.count - w.used
	case Cells:
		_, used, _, _ := s.at(now)
		return s.count - used
	case Counter:
		return s.count - s.used(now)
	case Log:
		counted, _, _ := s.at(now)
		return s.count - units(counted)
	}
	panic(fmt.Sprintf("%T has no grants", s))
}

// capacity returns the units of a state that has used none.
func capacity(s State) int64 {
	switch s := s.(type) {
	case Bucket:
		return s.burst
	case Window:
		return s.count
	case Cells:
		return s.count
	case Counter:
		return s.count
	case Log:
		return s.count
	}
	panic(fmt.Sprintf("%T has no grants", s))
}

// end returns when a grant must end: with the fixed window, otherwise never.
func end(s State, now int64) int64 {
	if w, ok := s.(Window); ok {
		if w, _ = w.at(now); w.open || !w.opened {
			return w.end
		}
	}
	return math.MaxInt64
}

// opened returns the state with a window to grant from: a grant opens a window as a request does.
func opened(s State, now int64) State {
	w, ok := s.(Window)
	if !ok {
		return s
	}
	w, _ = w.at(now)
	w.open = true
	return w
}

// latest returns the time that a state counts from.
func latest(s State) int64 {
	switch s := s.(type) {
	case Bucket:
		return s.last
	case Window:
		return s.start
	case Cells:
		return s.newest * s.cell()
	case Counter:
		return s.newest * s.length
	case Log:
		if n := len(s.entries); n > 0 {
			return s.entries[n-1].at
		}
		return 0
	}
	panic(fmt.Sprintf("%T has no grants", s))
}
