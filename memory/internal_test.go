package memory

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// start is the time at which tests begin, in microseconds since the epoch.
const start = 1_900_000_000_000_000

// open returns a store whose clock reads *now, and checks its invariants at the end.
func open(tb testing.TB, now *int64, o Options) *Store {
	tb.Helper()
	o.Clock = func() int64 { return *now }
	s, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		checkInvariants(tb, s)
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// take decides a request for cost units.
func take(tb testing.TB, s *Store, l *sluice.Limit, k sluice.Key, cost int64) sluice.Decision {
	tb.Helper()
	d, err := s.Decide(context.Background(), sluice.Request{Limit: l, Key: k, Cost: cost})
	if err != nil {
		tb.Fatalf("Decide(%v): %v", l, err)
	}
	return d
}

// numbered returns the key of a number.
func numbered(i int) sluice.Key { return sluice.StringKey("user-" + strconv.Itoa(i)) }

// lasting returns a limit whose states are not fresh again for days.
func lasting(name string, units int64) *sluice.Limit {
	return sluice.MustLimit(name, sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: units})
}

// brief returns a limit whose states are fresh again after a second.
func brief(name string, units int64) *sluice.Limit {
	return sluice.MustLimit(name, sluice.TokenBucket{Rate: sluice.PerSecond(units), Burst: units})
}

// micros returns a time as stores count it.
func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }

// giveUpAll gives up all states that equal fresh ones, as a store that is short of memory does.
func (sp *stripe) giveUpAll(now int64) {
	for range 10 { // the table may be moved meanwhile
		sp.lock()
		if sp.old != nil {
			sp.move(len(sp.old.entries), now)
		}
		sp.sweep(len(sp.now.entries), 0, now)
		sp.unlock()
	}
}
