package guard

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// upTo returns a number of 1 to most, of any order of magnitude.
func upTo(r *rand.Rand, most int64) int64 {
	return 1 + r.Int64N(1+r.Int64N(most)>>r.IntN(63))%most
}

// anyLimit makes a limit of random numbers that is accepted.
func anyLimit(r *rand.Rand) *sluice.Limit {
	periods := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour, longest}
	for {
		rate := sluice.Per(upTo(r, 1<<50), periods[r.IntN(len(periods))])
		if r.IntN(2) == 0 {
			rate = sluice.Per(upTo(r, 1<<50), time.Duration(upTo(r, longestMicros))*time.Microsecond)
		}
		maybe := func(n int64) int64 { return n * r.Int64N(2) }
		var a sluice.Algorithm
		switch r.IntN(8) {
		case 0:
			a = sluice.TokenBucket{Rate: rate, Burst: maybe(upTo(r, 1<<50)), Debt: maybe(upTo(r, 1<<50))}
		case 1:
			a = sluice.TokenBucket{Rate: rate, Burst: maybe(upTo(r, 1000)), WarmUp: time.Duration(upTo(r, 3600_000)) * time.Millisecond, ColdFactor: maybe(2 + r.Int64N(98))}
		case 2:
			q := upTo(r, 1<<50)
			a = sluice.LeakyBucket{Rate: rate, Queue: q, Undelayed: maybe(1 + r.Int64N(q))}
		case 3:
			a = sluice.FixedWindow{Rate: rate, Opened: r.IntN(2) == 0}
		case 4:
			a = sluice.SlidingWindow{Rate: rate}
		case 5:
			a = sluice.SlidingCounter{Rate: rate}
		case 6:
			rate = sluice.Per(upTo(r, 1<<16), rate.Period())
			a = sluice.SlidingLog{Rate: rate, MinInterval: time.Duration(maybe(r.Int64N(1+int64(rate.Period()/time.Microsecond)))) * time.Microsecond}
		default:
			a = sluice.Concurrency{Max: upTo(r, 1<<15), Queue: maybe(upTo(r, 1<<15)), TTL: time.Duration(maybe(upTo(r, 1000))) * time.Second}
		}
		if l, err := sluice.NewLimit("any", a); err == nil {
			return l
		}
	}
}

// perMicro returns a rate as units per microsecond.
func perMicro(r sluice.Rate) *big.Rat {
	return big.NewRat(r.Count(), int64(r.Period()/time.Microsecond))
}

// The local version of any limit has the share of each number, rounded down to one at least,
// and a rate that is not faster and only as much slower as counting requires.
func TestScaleLaw(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	inexact := 0
	const rounds = 2000
	for range rounds {
		l := anyLimit(r)
		s := share{1, 1 + upTo(r, 100)}
		if r.IntN(3) == 0 {
			s.Parts = 1 + upTo(r, 1_000_000-1)
			s.Of = 1 + r.Int64N(s.Parts)
		}
		part := func(n int64) int64 {
			q := new(big.Int).Mul(big.NewInt(n), big.NewInt(s.Of))
			return q.Quo(q, big.NewInt(s.Parts)).Int64()
		}
		scaled := s.scale(l)
		fail := func(what string) { t.Fatalf("%v of %v is %v: %s", s, l, scaled, what) }
		if scaled.Name() != "guard\x00any" {
			fail("the name")
		}
		if scaled.Params().Kind != l.Params().Kind {
			fail("the algorithm")
		}
		paced := func(was, is sluice.Rate, units int64, warm bool) {
			want := perMicro(was)
			want.Mul(want, big.NewRat(s.Of, s.Parts))
			got := perMicro(is)
			if got.Cmp(want) > 0 && is != sluice.Per(1, longest) {
				fail("too fast")
			}
			if got.Cmp(want) == 0 {
				return
			}
			inexact++
			if warm && is.Count() >= int64(is.Period()/time.Microsecond) {
				return // as fast as can be counted
			}
			// No slower than by one in a thousand, where the units can be counted in
			// periods of a second; or than by the rounding of one unit's time. A warm-up
			// that is long and cold takes its part of what can be counted.
			each := new(big.Rat).Inv(want)
			slack := big.NewRat(1, 1)
			if units < algo.MaxTicks/1_000_000 && (!warm || is.Count() > 1000) {
				slack.Mul(each, big.NewRat(1, 1000))
			} else if slack.Cmp(each) > 0 {
				slack.Set(each)
			}
			if new(big.Rat).Inv(got).Cmp(slack.Add(slack, each)) > 0 {
				fail("too slow")
			}
		}
		capacity := max(1, part(l.Capacity()))
		switch a := l.Algorithm().(type) {
		case sluice.TokenBucket:
			is := scaled.Algorithm().(sluice.TokenBucket)
			paced(a.Rate, is.Rate, is.Burst+is.Debt, a.WarmUp > 0)
			if a.Debt > 0 && is.Debt != max(1, part(a.Debt)) || is.WarmUp != a.WarmUp || is.ColdFactor != a.ColdFactor {
				fail("the debt or the warm-up")
			}
		case sluice.LeakyBucket:
			is := scaled.Algorithm().(sluice.LeakyBucket)
			paced(a.Rate, is.Rate, is.Queue+1, false)
			capacity = part(a.Queue) + 1
			if is.Undelayed != part(a.Undelayed) {
				fail("what is not delayed")
			}
		case sluice.SlidingLog:
			is := scaled.Algorithm().(sluice.SlidingLog)
			// At least 1/share as long, by less than a microsecond, up to the period.
			share := big.NewRat(s.Of, s.Parts)
			micro := func(d time.Duration) *big.Rat { return big.NewRat(int64(d/time.Microsecond), 1) }
			back := func(d time.Duration) *big.Rat { r := micro(d); return r.Mul(r, share) }
			short := back(is.MinInterval).Cmp(micro(a.MinInterval)) < 0 && is.MinInterval < a.Rate.Period()
			long := is.MinInterval > 0 && back(is.MinInterval-time.Microsecond).Cmp(micro(a.MinInterval)) >= 0
			if short || long || is.MinInterval > a.Rate.Period() {
				fail("the least interval")
			}
		case sluice.Concurrency:
			is := scaled.Algorithm().(sluice.Concurrency)
			capacity = max(1, part(a.Max)) + part(a.Queue)
			if is.Max != max(1, part(a.Max)) || is.TTL != a.TTL {
				fail("the most at once")
			}
		}
		if scaled.Capacity() != capacity {
			fail("the capacity")
		}
	}
	t.Logf("%d of %d have a rate that is not exact", inexact, rounds)
}

// A share of a limit has its numbers, rounded so that shares do not exceed the limit.
func TestScaledSharesDoNotExceedTheLimit(t *testing.T) {
	zone := time.FixedZone("here", 3600)
	for _, c := range []struct {
		share     share
		was, want sluice.Algorithm
	}{
		{
			share{1, 3},
			sluice.TokenBucket{Rate: sluice.PerSecond(100)},
			sluice.TokenBucket{Rate: sluice.Per(100, 3*time.Second), Burst: 33, Debt: 33},
		},
		{
			share{1, 4},
			sluice.TokenBucket{Rate: sluice.PerMinute(1), Burst: 3, Debt: 20},
			sluice.TokenBucket{Rate: sluice.Per(1, 4*time.Minute), Burst: 1, Debt: 5},
		},
		{
			share{1, 2},
			sluice.LeakyBucket{Rate: sluice.PerSecond(5), Queue: 5, Undelayed: 3},
			sluice.LeakyBucket{Rate: sluice.Per(5, 2*time.Second), Queue: 2, Undelayed: 1},
		},
		{
			share{1, 2},
			sluice.FixedWindow{Rate: sluice.PerDay(9), Calendar: sluice.CalendarMonth, Zone: zone},
			sluice.FixedWindow{Rate: sluice.PerDay(4), Calendar: sluice.CalendarMonth, Zone: zone},
		},
		{
			share{1, 10},
			sluice.FixedWindow{Rate: sluice.PerDay(9), Opened: true},
			sluice.FixedWindow{Rate: sluice.PerDay(1), Opened: true},
		},
		{
			share{2, 3},
			sluice.SlidingWindow{Rate: sluice.PerMinute(10), Cells: 4, CountDenied: true},
			sluice.SlidingWindow{Rate: sluice.PerMinute(6), Cells: 4, CountDenied: true},
		},
		{
			share{2, 3},
			sluice.SlidingCounter{Rate: sluice.PerMinute(10), CountDenied: true},
			sluice.SlidingCounter{Rate: sluice.PerMinute(6), CountDenied: true},
		},
		{
			share{1, 3},
			sluice.SlidingLog{Rate: sluice.PerMinute(10), MinInterval: time.Second, CountDenied: true},
			sluice.SlidingLog{Rate: sluice.PerMinute(3), MinInterval: 3 * time.Second, CountDenied: true},
		},
		{
			share{1, 100},
			sluice.SlidingLog{Rate: sluice.PerMinute(10), MinInterval: time.Second},
			sluice.SlidingLog{Rate: sluice.PerMinute(1), MinInterval: time.Minute},
		},
		{
			share{1, 3},
			sluice.Concurrency{Max: 10, Queue: 2, TTL: time.Second, Latency: time.Millisecond},
			sluice.Concurrency{Max: 3, Queue: 0, TTL: time.Second, Latency: time.Millisecond},
		},
	} {
		l := sluice.MustLimit("", c.was)
		want := sluice.MustLimit("guard\x00"+l.Name(), c.want)
		got := c.share.scale(l)
		if got.Name() != want.Name() || *got.Params() != *want.Params() && l.Params().Fixed.Calendar == nil {
			t.Errorf("%v of %v:\n got %v\nwant %v", c.share, c.was, got, want)
		}
		if got.Capacity() != want.Capacity() || got.Algorithm() != want.Algorithm() && l.Params().Kind != algo.KindBucket {
			t.Errorf("%v of %v:\n got %v\nwant %v", c.share, c.was, got, want)
		}
		if whole := (share{7, 7}).scale(l); whole.Algorithm() != l.Algorithm() {
			t.Errorf("all of %v: %v", c.was, whole)
		}
	}
}

// A scaled floor leaves at least one unit, if the whole floor does.
func TestScaledFloorsLeaveAUnit(t *testing.T) {
	s := scaler{part: share{1, 10}}
	for _, c := range []struct{ capacity, floor, want int64 }{
		{100, 0, 0}, {100, 9, 0}, {100, 50, 5}, {100, 99, 9}, {11, 10, 0}, {25, 24, 1}, {100, 100, 100}, {100, 200, 200},
	} {
		l := sluice.MustLimit("", sluice.FixedWindow{Rate: sluice.PerDay(c.capacity)})
		if got := s.floor(l, s.limit(l), c.floor); got != c.want {
			t.Errorf("a floor of %d of %d is %d locally, want %d", c.floor, c.capacity, got, c.want)
		}
	}
}

// Limits that are made for each request find their local version, and the limits of a flood
// do not pile up.
func TestScaledLimitsAreKept(t *testing.T) {
	s := scaler{part: share{1, 2}}
	made := func(name string, n int64) *sluice.Limit {
		return s.limit(sluice.MustLimit(name, sluice.TokenBucket{Rate: sluice.PerSecond(n)}))
	}
	first := made("a", 10)
	if made("a", 10) != first {
		t.Error("a limit of the same numbers has another local version")
	}
	if made("a", 12) == first || made("b", 10) == first {
		t.Error("limits of other numbers, or of another name, have the same local version")
	}
	for i := range int64(2 * maxScaled) {
		made("flood", i+1)
		if len(s.cache) > maxScaled {
			t.Fatalf("%d limits are kept", len(s.cache))
		}
	}
	if got := made("a", 10); got.Name() != first.Name() || *got.Params() != *first.Params() {
		t.Errorf("made again: %v, was %v", got, first)
	}
}

// A receipt without its mark is the original, and the mark names the layer.
func TestMarksOfReceiptsNameTheLayer(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		was := sluice.Receipt{At: upTo(r, 1<<61) - 1, Over: r.Uint64()}
		if r.IntN(2) == 0 {
			was.At = ^was.At // of memory, for budgets that are shared
		}
		for _, by := range []layer{byStore, byLocal, byNobody} {
			got, who := unmark(mark(was, by))
			if got != was || who != by {
				t.Fatalf("%+v by %d: read as %+v by %d", was, by, got, who)
			}
		}
	}
	if got, by := unmark(sluice.Receipt{}); by != byStore || got != (sluice.Receipt{}) {
		t.Errorf("the zero receipt is read as %+v by %d", got, by)
	}
}
