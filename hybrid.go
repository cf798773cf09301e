package sluice

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Hybrid holds the terms on which a limit is decided in the process: on units that a store has
// granted to the process ahead of the requests. The zero value has usable defaults.
//
// A hybrid limit never admits more than the limit itself, whatever the number of processes, plus
// Overdraft, plus Credit for each process. It may admit less: granted units that a process does
// not use, up to the Stranded part of the capacity, are unavailable to other processes.
type Hybrid struct {
	// Sync is how often a process reports what it has spent and gets new units: 10 milliseconds
	// to 10 seconds. Default: 100 milliseconds.
	Sync time.Duration
	// Life is how long a process may spend a grant without hearing from the store: at least four
	// times Sync, and up to a minute. The units of a crashed process count as used after this
	// time. Default: two seconds, or four times Sync if that is longer.
	Life time.Duration
	// Stranded is the part of the capacity that may be granted at once to all processes together:
	// a millionth to 1. Default: 0.05.
	Stranded float64
	// Overdraft is how many units the limit may be exceeded by, up to its capacity. Default: 0.
	Overdraft int64
	// Credit is how many units of a key a process may admit before the store has granted it any,
	// up to the capacity. Default: 0.
	Credit int64
}

// The defaults and the bounds of hybrid terms.
const (
	defaultSync     = 100 * time.Millisecond
	defaultLife     = 2 * time.Second
	defaultStranded = 0.05
	syncsOfLife     = 4
	maxLife         = time.Minute
	millionths      = 1_000_000
)

// complete returns the terms with the defaults filled in.
func (h Hybrid) complete() Hybrid {
	if h.Sync == 0 {
		h.Sync = defaultSync
	}
	if h.Life == 0 {
		h.Life = max(defaultLife, syncsOfLife*h.Sync)
	}
	if h.Stranded == 0 {
		h.Stranded = defaultStranded
	}
	return h
}

// check reports the first invalid term of a limit with this capacity.
func (h *Hybrid) check(capacity int64) *LimitError {
	if err := first(
		duration("Hybrid.Sync", h.Sync, 10*time.Millisecond, 10*time.Second),
		duration("Hybrid.Life", h.Life, 0, maxLife),
	); err != nil {
		return err
	}
	if h.Life < syncsOfLife*h.Sync {
		return refuse("Hybrid.Life", fmt.Sprintf("is %v, less than %d times Sync", h.Life, syncsOfLife),
			fmt.Sprintf("give %v or more, or a shorter Sync", syncsOfLife*h.Sync))
	}
	if !(h.Stranded >= 1.0/millionths && h.Stranded <= 1) { // NaN too
		return refuse("Hybrid.Stranded", fmt.Sprintf("is %v", h.Stranded), "give 0.000001 to 1")
	}
	if err := first(
		between("Hybrid.Overdraft", h.Overdraft, 0, capacity),
		between("Hybrid.Credit", h.Credit, 0, capacity),
	); err != nil {
		return err
	}
	if h.escrow(capacity) == 0 {
		return refuse("Hybrid.Stranded", fmt.Sprintf("of %v is less than one unit of %d, so that nothing can be granted", h.Stranded, capacity),
			fmt.Sprintf("give %v or more, or leave out Hybrid", leastStranded(capacity)))
	}
	return nil
}

// escrow returns the Stranded part of a capacity, rounded down to whole units.
func (h *Hybrid) escrow(capacity int64) int64 {
	hi, lo := bits.Mul64(uint64(capacity), uint64(math.Round(h.Stranded*millionths)))
	units, _ := bits.Div64(hi, lo, millionths)
	return int64(units)
}

// leastStranded returns the smallest part of a capacity, in millionths, that is a whole unit.
func leastStranded(capacity int64) float64 {
	return float64((millionths+capacity-1)/capacity) / millionths
}

// ungrantable returns why units of an algorithm cannot be granted ahead of requests, and what to
// do instead. Both are empty if they can be.
func ungrantable(a Algorithm) (problem, remedy string) {
	const leaveOut = "leave out Hybrid, "
	const denials = "is given with CountDenied: a denial in one process would have to count in all others at once"
	switch a := a.(type) {
	case TokenBucket:
		if a.WarmUp > 0 {
			return "is given with a warm-up, whose rate depends on the order of all requests", leaveOut + "or the warm-up"
		}
	case FixedWindow:
		if a.CountDenied {
			return denials, leaveOut + "or CountDenied"
		}
	case SlidingWindow:
		if a.CountDenied {
			return denials, leaveOut + "or CountDenied"
		}
	case SlidingCounter:
		if a.CountDenied {
			return denials, leaveOut + "or CountDenied"
		}
	case SlidingLog:
		if a.CountDenied {
			return denials, leaveOut + "or CountDenied"
		}
		if a.MinInterval > 0 {
			return "is given with MinInterval, which depends on the last request of any process", leaveOut + "or MinInterval"
		}
	case LeakyBucket:
		return "is given with a leaky bucket, whose units leave in one order for all processes", leaveOut + "or use a token bucket"
	default:
		return "is given with a concurrency limit, whose units are not spent but released", leaveOut + "or bound the rate with a token bucket"
	}
	return "", ""
}

// WithHybrid returns a copy of the limit that is decided on granted units, by a store that supports
// this, such as the one of package hybrid. Other stores ignore the terms, except that stores that
// grant units accept the overdraft.
//
// The copy has the same name, identity and numbers: programs with and without the terms share the
// state of a key. The error is a *LimitError. Limits whose decisions depend on the order of
// requests, or on denials, cannot be granted: leaky buckets, warm-ups, attempts that count,
// minimum intervals and concurrency limits.
func (l *Limit) WithHybrid(h Hybrid) (*Limit, error) {
	named := func(err *LimitError) error {
		if l.IsNamed() {
			err.Limit = l.name
		}
		return err
	}
	if problem, remedy := ungrantable(l.algorithm); problem != "" {
		return nil, named(refuse("Hybrid", problem, remedy))
	}
	h = h.complete()
	if err := h.check(l.Capacity()); err != nil {
		return nil, named(err)
	}
	c := *l
	c.hybrid = &h
	return &c, nil
}

// Hybrid returns the terms that WithHybrid has set, with the defaults filled in. It returns nil
// for a limit without such terms. Do not change them.
func (l *Limit) Hybrid() *Hybrid { return l.hybrid }

// Escrow returns the most units of one key that may be granted at once to all processes together.
// It is zero for a limit without hybrid terms.
func (l *Limit) Escrow() int64 {
	if l.hybrid == nil {
		return 0
	}
	return l.hybrid.escrow(l.Capacity())
}
