package fleet

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// Terms describe a limit in a form that processes send to each other.
type Terms struct {
	Name      string
	Algorithm string // bucket, aligned, opened, calendar, cells, counter or log
	Count     int64
	Period    time.Duration
	Burst     int64          // of a bucket; 0: the count
	Hybrid    *sluice.Hybrid // nil: exact
}

// Limit returns the limit.
func (t Terms) Limit() (*sluice.Limit, error) {
	rate := sluice.Per(t.Count, t.Period)
	var a sluice.Algorithm
	switch t.Algorithm {
	case "bucket":
		a = sluice.TokenBucket{Rate: rate, Burst: t.Burst}
	case "aligned":
		a = sluice.FixedWindow{Rate: rate}
	case "opened":
		a = sluice.FixedWindow{Rate: rate, Opened: true}
	case "calendar":
		a = sluice.FixedWindow{Rate: sluice.PerDay(t.Count), Calendar: sluice.CalendarMonth}
	case "cells":
		a = sluice.SlidingWindow{Rate: rate}
	case "counter":
		a = sluice.SlidingCounter{Rate: rate}
	case "log":
		a = sluice.SlidingLog{Rate: rate}
	default:
		return nil, fmt.Errorf("fleet: unknown algorithm %q", t.Algorithm)
	}
	l, err := sluice.NewLimit(t.Name, a)
	if err != nil || t.Hybrid == nil {
		return l, err
	}
	return l.WithHybrid(*t.Hybrid)
}

// Capacity returns the most units that the limit gives at once.
func (t Terms) Capacity() int64 {
	if t.Algorithm == "bucket" && t.Burst > 0 {
		return t.Burst
	}
	return t.Count
}

// PerSecond returns the rate of the limit.
func (t Terms) PerSecond() float64 { return float64(t.Count) / t.Period.Seconds() }
