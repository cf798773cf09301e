package decisions

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
)

// logWalks are versions of one log, and the time that one unit takes.
var logWalks = []struct {
	unit     time.Duration
	versions []sluice.SlidingLog
}{
	{time.Second, []sluice.SlidingLog{{Rate: sluice.PerSecond(1)}}},
	{time.Second, []sluice.SlidingLog{{Rate: sluice.PerMinute(5), MinInterval: time.Second}}},
	{time.Second / 100, []sluice.SlidingLog{{Rate: sluice.PerSecond(100)}}},
	{time.Second / 100, []sluice.SlidingLog{{Rate: sluice.PerSecond(100), CountDenied: true}}},
	{time.Second, []sluice.SlidingLog{{Rate: sluice.PerMinute(7), MinInterval: 3 * time.Second, CountDenied: true}}},
	{time.Microsecond, []sluice.SlidingLog{{Rate: sluice.Per(3, 7*time.Microsecond)}}},
	{time.Microsecond, []sluice.SlidingLog{{Rate: sluice.Per(1, time.Microsecond)}}},
	{time.Second, []sluice.SlidingLog{{Rate: sluice.Per(65536, 30*24*time.Hour)}}},
	{time.Second, []sluice.SlidingLog{{Rate: sluice.Per(65521, 97*time.Second), CountDenied: true}}},
	{time.Hour, []sluice.SlidingLog{{Rate: sluice.Per(1, 30*24*time.Hour)}}},
	{time.Second, []sluice.SlidingLog{
		{Rate: sluice.PerMinute(10)},
		{Rate: sluice.PerSecond(3), MinInterval: time.Second / 8},
		{Rate: sluice.PerHour(1000), CountDenied: true},
		{Rate: sluice.PerMinute(10), CountDenied: true},
	}},
	{time.Second, []sluice.SlidingLog{
		{Rate: sluice.PerMinute(2)}, {Rate: sluice.PerMinute(200)}, {Rate: sluice.Per(50, 13*time.Second)},
	}},
}

func TestLogsAsInMemory(t *testing.T) {
	t.Parallel()
	client := adapters.Rueidis.Dial(t, adapters.ToSocket(redistest.Start(t)))
	for i, walk := range logWalks {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			for seed := range uint64(3) {
				w := newTwins(t, client, seed, unhurried(seed)...)
				for _, v := range walk.versions {
					w.versions = append(w.versions, sluice.MustLimit("log", v))
				}
				w.unit, w.period = walk.unit.Microseconds(), walk.versions[0].Rate.Period().Microseconds()
				w.walk(redistest.Times(t, 80))
			}
		})
	}
}

// TestLongLogs: logs of more entries than are read at once.
func TestLongLogs(t *testing.T) {
	t.Parallel()
	client := adapters.Rueidis.Dial(t, adapters.ToSocket(redistest.Start(t)))
	for seed, denied := range []bool{false, true, true, false} {
		w := newTwins(t, client, uint64(seed), unhurried(uint64(seed))...)
		w.versions = []*sluice.Limit{sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerHour(1000), CountDenied: denied})}
		w.unit, w.period = 1_000_000, 3_600_000_000
		for range 2 {
			w.fill(500)
			w.walk(redistest.Times(t, 30))
		}
	}
}

// TestLogsCountAnew: what has been logged for very long is counted from the start.
func TestLogsCountAnew(t *testing.T) {
	t.Parallel()
	client := adapters.Rueidis.Dial(t, adapters.ToSocket(redistest.Start(t)))
	for seed := range uint64(3) {
		w := newTwins(t, client, seed, "chunk = 200", "chunk = 3",
			"mostUnits = 4503599627370496", "mostUnits = 2251799813685548",
			"leastUnits = 1125899906842624", "leastUnits = 2251799813685208")
		w.versions = []*sluice.Limit{sluice.MustLimit("log", sluice.SlidingLog{Rate: sluice.PerMinute(50)})}
		w.unit, w.period = 1_000_000, 60_000_000
		w.walk(redistest.Times(t, 60))
	}
}

// TestLogOfACentury: a log that counts for longer than there has been time since 1970 is
// as new when its only entry is given back.
func TestLogOfACentury(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	d := a.duel(t, 1, func(*duel) sluice.Algorithm {
		return sluice.SlidingLog{Rate: sluice.Per(2, 100*365*24*time.Hour)}
	})
	r := sluice.Request{Limit: d.limits[0], Key: d.keys[0], Cost: 1}
	for range 3 {
		d.decide(r)
		d.cancel(len(d.live) - 1)
		d.look(r.Limit, r.Key)
	}
}

// TestLogSince1970: a log that has begun before its period is over since 1970, as on a
// machine whose clock was never set, denies as any other.
func TestLogSince1970(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	d := a.duel(t, 1, func(*duel) sluice.Algorithm { return sluice.SlidingLog{Rate: sluice.PerMinute(3)} })
	for d.now = 1; d.now < 120_000_000; d.now += 7_000_000 {
		d.decide(sluice.Request{Limit: d.limits[0], Key: d.keys[0], Cost: 1})
	}
}

// TestDeniedDebitsUnderOtherNumbers: a debit that is denied is charged under the numbers that the log is kept under. What remains
// is counted once.
func TestDeniedDebitsUnderOtherNumbers(t *testing.T) {
	t.Parallel()
	d := newArena(t).duel(t, 1, func(*duel) sluice.Algorithm { return sluice.SlidingLog{Rate: sluice.PerMinute(200)} })
	few := sluice.MustLimit("duel", sluice.SlidingLog{Rate: sluice.Per(50, 13*time.Second)})
	d.decide(sluice.Request{Limit: few, Key: d.keys[0], Cost: 38})
	d.now++
	for _, r := range []sluice.Request{{Cost: 200, Floor: 2}, {Cost: 150}, {Cost: 1, Floor: 199}} {
		r.Limit, r.Key, r.Debit = d.limits[0], d.keys[0], true
		if d.decide(r).Allowed {
			t.Errorf("%s is allowed, want it denied", describe(&r))
		}
		d.look(few, d.keys[0])
		d.look(r.Limit, r.Key)
	}
}
