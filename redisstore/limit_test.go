package redisstore

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // this release of Go has the same zones on every system

	"github.com/sluicehq/sluice/internal/algo"
)

// calendars have days of 22 to 26 hours, and odd beginnings.
func calendars(t *testing.T) []*algo.Calendar {
	t.Helper()
	var cs []*algo.Calendar
	for _, name := range []string{
		"UTC", "Europe/Berlin", "America/Havana", "Asia/Kathmandu", "Antarctica/Troll",
		"Australia/Lord_Howe", "America/Scoresbysund", "Pacific/Apia",
	} {
		z, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, unit := range []algo.Unit{algo.Day, algo.Week, algo.Month} {
			cs = append(cs, &algo.Calendar{Unit: unit, Zone: z})
		}
	}
	return cs
}

// TestPeriodsAroundATime: the period of each time is there, with its neighbours. Where others are missing,
// window.lua can recognise that by the distance.
func TestPeriodsAroundATime(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const from, years = 1_750_000_000_000_000, 15 * 365 * 86_400_000_000
	for _, c := range calendars(t) {
		for range 100 {
			first := from + rng.Int64N(years)
			times := []int64{first, first + rng.Int64N(8*c.Longest()), from + rng.Int64N(years)}
			all := bounds(c, times...)
			for _, at := range times {
				start, end := c.Start(at), c.End(at)
				i := slices.Index(all, start)
				if i < 1 || i+4 >= len(all) || all[i+1] != end || all[i-1] != c.Start(start-1) || all[i+4] < at+2*c.Longest() {
					t.Fatalf("%v of %v: %d is not held by %v", c.Unit, c.Zone, at, all)
				}
			}
			for i := range len(all) - 1 {
				near := 2*(all[i+1]-all[i]) < 3*c.Longest()
				if all[i] >= all[i+1] || near != (c.End(all[i]) == all[i+1]) {
					t.Fatalf("%v of %v: %d and %d follow each other", c.Unit, c.Zone, all[i], all[i+1])
				}
			}
		}
	}
}

// TestCalendarID: calendars with different windows have different IDs.
func TestCalendarID(t *testing.T) {
	ids := make(map[int64]*algo.Calendar)
	all := calendars(t)
	for _, offset := range []int{0, 3600, -3600} {
		all = append(all, &algo.Calendar{Unit: algo.Day, Zone: time.FixedZone("here", offset)})
	}
	for _, c := range all {
		id := calendarID(c)
		if other := ids[id]; other != nil || id < 0 || id >= 1<<32 {
			t.Errorf("%+v and %+v are both %d", c, other, id)
		}
		ids[id] = c
		if again := calendarID(&algo.Calendar{Unit: c.Unit, Zone: c.Zone}); again != id {
			t.Errorf("%+v is %d and %d", c, id, again)
		}
	}
}
