package decisions

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/redisstore"
)

// TestSkewedClocks calls one server through stores whose own clocks are up to forty days
// wrong, in turn and of calendars: the decisions are the same, because they depend on the
// server's clock. The store sends boundaries again that such a clock has guessed wrong.
func TestSkewedClocks(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		s := redistest.Start(t)
		for _, skew := range []time.Duration{time.Hour, -time.Hour, 40 * 24 * time.Hour, -40 * 24 * time.Hour} {
			t.Run(skew.String(), func(t *testing.T) {
				o := redisstore.Options{Prefix: a.Name + skew.String()}
				right := a.Open(t, adapters.To(s.Addr()), o)
				o.Clock = func() int64 { return time.Now().Add(skew).UnixMicro() }
				wrong := a.Open(t, adapters.To(s.Addr()), o)
				for _, unit := range []sluice.CalendarUnit{sluice.CalendarDay, sluice.CalendarWeek, sluice.CalendarMonth} {
					before := scriptsRun(t, s)
					calls := skewed(t, right, wrong, unit)
					more := scriptsRun(t, s) - before - calls
					// Days and weeks that are guessed forty days off do not hold the time. Months may.
					if far := skew.Abs() > 24*time.Hour && unit != sluice.CalendarMonth; far != (more > 0) && unit != sluice.CalendarMonth {
						t.Errorf("%v: %d scripts were run twice", unit, more)
					}
				}
			})
		}
	})
}

func scriptsRun(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	stats, err := s.CommandStats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stats["evalsha"].Calls // also calls of scripts that were not known
}

// skewed calls two stores in turn, and returns how many calls it took.
func skewed(t *testing.T, right, wrong *redisstore.Store, unit sluice.CalendarUnit) int64 {
	t.Helper()
	const count = 40
	window := sluice.FixedWindow{Rate: sluice.PerDay(count), Calendar: unit}
	l, twin := sluice.MustLimit(fmt.Sprint("skew ", unit), window), sluice.MustLimit(fmt.Sprint("twin ", unit), window)
	key := sluice.StringKey("k")
	calls := int64(0)
	// Every step is made for two limits, for one of them only by the right clock.
	step := func(what string, by, twinBy func(s *redisstore.Store, l *sluice.Limit) (sluice.Decision, error)) {
		t.Helper()
		want, wantErr := twinBy(right, twin)
		got, err := by(wrong, l)
		calls += 2
		if (err == nil) != (wantErr == nil) || got.Allowed != want.Allowed || got.Remaining != want.Remaining || got.Reason != want.Reason {
			t.Fatalf("%s: %+v, %v with a wrong clock, %+v, %v with the right one", what, got, err, want, wantErr)
		}
		if apart := got.ResetAfter - want.ResetAfter; apart.Abs() > 10*time.Second {
			t.Fatalf("%s: the window ends in %v by a wrong clock, in %v by the right one", what, got.ResetAfter, want.ResetAfter)
		}
	}
	both := func(what string, do func(s *redisstore.Store, l *sluice.Limit) (sluice.Decision, error)) {
		t.Helper()
		step(what, do, do)
		step(what+" by the other", func(_ *redisstore.Store, l *sluice.Limit) (sluice.Decision, error) { return do(right, l) }, do)
	}
	charges := make(map[*sluice.Limit]sluice.Charge)
	for range count/8 + 2 {
		both("a decision", func(s *redisstore.Store, l *sluice.Limit) (sluice.Decision, error) {
			r := sluice.Request{Limit: l, Key: key, Cost: 3}
			d, err := s.Decide(t.Context(), r)
			if d.Allowed {
				charges[l] = r.Charge(&d)
			}
			d.Receipt = sluice.Receipt{}
			return d, err
		})
		both("a batch", func(s *redisstore.Store, l *sluice.Limit) (sluice.Decision, error) {
			out := make([]sluice.Decision, 2)
			r := sluice.Request{Limit: l, Key: key, Cost: 1}
			err := s.DecideAll(t.Context(), []sluice.Request{r, r}, out)
			return out[1], err
		})
		both("a settlement", func(s *redisstore.Store, l *sluice.Limit) (sluice.Decision, error) {
			return sluice.Decision{}, s.Settle(t.Context(), charges[l], 2)
		})
		both("a look", func(s *redisstore.Store, l *sluice.Limit) (sluice.Decision, error) {
			return s.Decide(t.Context(), sluice.Request{Limit: l, Key: key, Peek: true})
		})
	}
	return calls
}
