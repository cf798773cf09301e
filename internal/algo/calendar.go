package algo

import "time"

// Unit is a period of the calendar.
type Unit uint8

// The calendar's periods.
const (
	Day Unit = iota + 1
	Week
	Month
)

// Calendar computes the boundaries of days, weeks (from Monday) or months in a time zone. A day
// of 22 to 26 hours is one day.
type Calendar struct {
	Unit Unit
	Zone *time.Location
}

// Longest returns the length of the longest period, in microseconds. The station Troll in
// Antarctica changes its clocks by two hours, all other zones by at most one.
func (c *Calendar) Longest() int64 {
	const hour = 3600e6
	switch c.Unit {
	case Month:
		return (31*24 + 2) * hour
	case Week:
		return (7*24 + 2) * hour
	default:
		return 26 * hour
	}
}

// shortest returns a lower bound of the length of a period, in microseconds.
func (c *Calendar) shortest() int64 {
	const hour = 3600e6
	switch c.Unit {
	case Month:
		return 27 * 24 * hour
	case Week:
		return 6 * 24 * hour
	default:
		return 22 * hour
	}
}

// Start returns the beginning of the period that contains now.
func (c *Calendar) Start(now int64) int64 {
	return c.boundary(now, 0)
}

// End returns the end of the period that contains now.
func (c *Calendar) End(now int64) int64 {
	return c.boundary(now, 1)
}

// alike reports whether two calendars have the same periods, as far as ZoneID shows.
func (c *Calendar) alike(d *Calendar) bool { return c.Unit == d.Unit && c.ZoneID() == d.ZoneID() }

// ZoneID is what distinguishes the zones of calendars.
type ZoneID struct {
	Name           string
	Winter, Summer int
}

// ZoneID returns what distinguishes the calendar's zone from others: its name, and its offsets in
// seconds in a January and a July, because a fixed zone and the local one may have any name.
func (c *Calendar) ZoneID() ZoneID {
	offset := func(m time.Month) int {
		_, o := time.Date(2025, m, 1, 0, 0, 0, 0, time.UTC).In(c.Zone).Zone()
		return o
	}
	return ZoneID{c.Zone.String(), offset(time.January), offset(time.July)}
}

func (c *Calendar) boundary(now int64, next int) int64 {
	t := time.UnixMicro(now).In(c.Zone)
	y, m, d := t.Date()
	switch c.Unit {
	case Month:
		return c.midnight(y, m+time.Month(next), 1)
	case Week:
		return c.midnight(y, m, d-int(t.Weekday()+6)%7+7*next)
	default:
		return c.midnight(y, m, d+next)
	}
}

// midnight returns the first moment of a day. A change of the clock may skip midnight or repeat
// it, and time.Date may return another moment then. It may skip the whole day, as in Samoa; then
// the first moment after it counts.
func (c *Calendar) midnight(y int, m time.Month, d int) int64 {
	const step = 15 * time.Minute // all clock changes are multiples of it
	want := date(time.Date(y, m, d, 0, 0, 0, 0, time.UTC))
	t := time.Date(y, m, d, 0, 0, 0, 0, c.Zone)
	for date(t) < want {
		t = t.Add(step)
	}
	for {
		earlier := t.Add(-step)
		if date(earlier) < want {
			return t.UnixMicro()
		}
		t = earlier
	}
}

// date returns a number that orders days.
func date(t time.Time) int { return 366*t.Year() + t.YearDay() }
