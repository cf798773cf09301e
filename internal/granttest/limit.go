package granttest

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/oracle"
)

// Fresh returns the oracle's fresh state of a limit whose units can be granted.
func Fresh(l *sluice.Limit) oracle.State {
	switch a := l.Algorithm().(type) {
	case sluice.TokenBucket:
		return oracle.NewBucket(a.Rate.Count(), micros(a.Rate.Period()), a.Burst, a.Debt)
	case sluice.FixedWindow:
		if a.Calendar != 0 {
			return oracle.NewCalendar(a.Rate.Count(), l.Params().Fixed.Length, begins(a)...)
		}
		return oracle.NewWindow(a.Rate.Count(), micros(a.Rate.Period()), a.Opened, a.CountDenied)
	case sluice.SlidingWindow:
		return oracle.NewCells(a.Rate.Count(), micros(a.Rate.Period()), int64(a.Cells), a.CountDenied)
	case sluice.SlidingCounter:
		return oracle.NewCounter(a.Rate.Count(), micros(a.Rate.Period()), a.CountDenied)
	case sluice.SlidingLog:
		return oracle.NewLog(a.Rate.Count(), micros(a.Rate.Period()), micros(a.MinInterval), a.CountDenied)
	}
	panic(fmt.Sprintf("granttest: %v has no grants", l))
}

// termsOf returns the terms of a limit's grants, zero without hybrid terms.
func termsOf(l *sluice.Limit) oracle.Terms {
	h := l.Hybrid()
	if h == nil {
		return oracle.Terms{}
	}
	return oracle.Terms{Cap: l.Escrow(), Overdraft: h.Overdraft, Life: micros(h.Life)}
}

// claimOf returns a claim in the oracle's terms.
func claimOf(c *driver.Claim) oracle.Claim {
	return oracle.Claim{
		Seq: c.Seq, Birth: c.Birth, Till: c.Till, Spent: c.Spent, Returned: c.Returned,
		Take: c.Take, Floor: c.Floor, Want: c.Want, Least: c.Least, Demand: c.Demand,
	}
}

func micros(d time.Duration) int64 { return d.Microseconds() }

// begins returns the begins of a calendar's periods from 1999 to 2060.
func begins(a sluice.FixedWindow) []int64 {
	var all []int64
	t := time.Date(1999, 1, 1, 0, 0, 0, 0, a.Zone)
	if a.Calendar == sluice.CalendarWeek {
		for t.Weekday() != time.Monday {
			t = t.AddDate(0, 0, 1)
		}
	}
	for t.Year() < 2060 {
		all = append(all, t.UnixMicro())
		switch a.Calendar {
		case sluice.CalendarDay:
			t = t.AddDate(0, 0, 1)
		case sluice.CalendarWeek:
			t = t.AddDate(0, 0, 7)
		default:
			t = t.AddDate(0, 1, 0)
		}
	}
	return all
}
