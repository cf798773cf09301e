package algo_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every system

	"github.com/sluicehq/sluice/internal/algo"
)

// zones skip midnights, repeat them, skip a whole day, or are odd.
var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/Havana", "Asia/Beirut",
	"Africa/Cairo", "Pacific/Apia", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Santiago", "America/Asuncion", "Antarctica/Troll",
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestCalendarHasNoGaps: periods are consecutive, begin at the first moment of their first day,
// and are no longer than Longest.
func TestCalendarHasNoGaps(t *testing.T) {
	for _, name := range zones {
		z := zone(t, name)
		law(t, 300, func(t *testing.T, c *chooser) {
			for _, unit := range []algo.Unit{algo.Day, algo.Week, algo.Month} {
				cal := &algo.Calendar{Unit: unit, Zone: z}
				now := time.Date(1995, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() + c.below(40*365*86_400_000_000)
				start, end := cal.Start(now), cal.End(now)
				switch before := time.UnixMicro(start - 1).In(z); {
				case start > now || now >= end:
					t.Errorf("%s %v: %d is not in %d to %d", name, unit, now, start, end)
				case cal.Start(start) != start || cal.Start(end) != end || cal.End(start-1) != start || cal.End(end-1) != end:
					t.Errorf("%s %v: the periods around %d have gaps", name, unit, now)
				case end-start > cal.Longest():
					t.Errorf("%s %v: %d to %d is longer than %d", name, unit, start, end, cal.Longest())
				case !boundary(unit, before, time.UnixMicro(start).In(z)):
					t.Errorf("%s %v begins at %v, after %v", name, unit, time.UnixMicro(start).In(z), before)
				}
			}
		})
	}
}

// boundary reports whether a period begins between two consecutive moments. Samoa had no December
// 30 in 2011.
func boundary(unit algo.Unit, before, after time.Time) bool {
	if before.YearDay() == after.YearDay() {
		return false
	}
	switch unit {
	case algo.Week:
		return after.Weekday() == time.Monday
	case algo.Month:
		return after.Day() == 1
	default:
		return true
	}
}

// Days, weeks, months and years begin and end by the zone's clock, also when it changes.
func TestCalendarBoundaries(t *testing.T) {
	for _, step := range []struct {
		zone  string
		unit  algo.Unit
		now   string
		start string
		end   string
	}{
		{"UTC", algo.Day, "2026-03-01T12:00:00Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
		{"UTC", algo.Week, "2026-03-01T12:00:00Z", "2026-02-23T00:00:00Z", "2026-03-02T00:00:00Z"},
		{"UTC", algo.Month, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"Europe/Berlin", algo.Day, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},     // 23 hours
		{"Europe/Berlin", algo.Day, "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},     // 25 hours
		{"America/Sao_Paulo", algo.Day, "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}, // no midnight
		{"America/Havana", algo.Day, "2023-11-05T05:30:00Z", "2023-11-05T04:00:00Z", "2023-11-06T05:00:00Z"},    // two midnights
		{"Pacific/Apia", algo.Day, "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},      // a day less
	} {
		cal := &algo.Calendar{Unit: step.unit, Zone: zone(t, step.zone)}
		now := parse(t, step.now)
		if start, end := cal.Start(now), cal.End(now); start != parse(t, step.start) || end != parse(t, step.end) {
			t.Errorf("%s %v of %s: %v to %v", step.zone, step.unit, step.now, time.UnixMicro(start).UTC(), time.UnixMicro(end).UTC())
		}
	}
}

func parse(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}

// TestCalendarWindow: a window of the calendar holds its count, also if the clock goes back over
// its start.
func TestCalendarWindow(t *testing.T) {
	for _, name := range zones {
		cal := &algo.Calendar{Unit: algo.Day, Zone: zone(t, name)}
		w := &algo.FixedWindow{Count: 3, Length: cal.Longest(), Calendar: cal}
		law(t, 100, func(t *testing.T, c *chooser) {
			var s algo.State
			now := time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() + c.below(20*365*86_400_000_000)
			sums := map[int64]int64{}
			for range 60 {
				now += c.one(0, 1, 3_600_000_000, -3_600_000_000, 7*3_600_000_000)
				req := algo.Request{Now: now, Cost: 1 + c.below(3)}
				before := s
				_, was := w.Decide(s, algo.Request{Now: now})
				var res algo.Result
				if s, res = w.Decide(s, req); !res.Allowed {
					if was.ResetAfter <= 0 || res.RetryAfter != was.ResetAfter {
						t.Errorf("%s at %d: %+v from %v", name, now, res, before)
					}
					continue
				}
				if end := now + res.ResetAfter; cal.Start(end) != end {
					t.Errorf("%s: the window ends at %d, which is not a boundary", name, end)
				} else if sums[end] += req.Cost; sums[end] > 3 {
					t.Errorf("%s: the day until %d holds %d", name, end, sums[end])
				}
				if c.oneIn(4) { // give it back
					ch := charge(req, res)
					s = w.Settle(s, now, ch, 0)
					if _, is := w.Decide(s, algo.Request{Now: now}); is.Remaining != was.Remaining {
						t.Errorf("%s: %v became %v", name, before, s)
					}
					sums[now+res.ResetAfter] -= req.Cost
				}
			}
		})
	}
}
