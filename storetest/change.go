package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// changing are versions of one limit for each algorithm. The second version of each has the
// larger bound over any interval.
var changing = map[string][]sluice.Algorithm{
	"token_bucket": {
		sluice.TokenBucket{Rate: fivePerSecond, Burst: 3},
		sluice.TokenBucket{Rate: sluice.PerSecond(7), Burst: 20},
		sluice.TokenBucket{Rate: sluice.PerSecond(6), Burst: 20, Debt: 30},
	},
	"token_bucket_warm_up": {
		sluice.TokenBucket{Rate: fivePerSecond, Burst: 3, WarmUp: time.Second},
		sluice.TokenBucket{Rate: sluice.PerSecond(7), Burst: 20, WarmUp: 300 * time.Millisecond},
	},
	"leaky_bucket": {
		sluice.LeakyBucket{Rate: fivePerSecond, Queue: 2},
		sluice.LeakyBucket{Rate: sluice.PerSecond(7), Queue: 20, Undelayed: 5},
	},
	"fixed_window": {
		sluice.FixedWindow{Rate: sluice.Per(4, time.Second)},
		sluice.FixedWindow{Rate: sluice.Per(20, 500*time.Millisecond)},
		sluice.FixedWindow{Rate: sluice.Per(15, time.Second)},
	},
	"fixed_window_opened": {
		sluice.FixedWindow{Rate: sluice.Per(4, time.Second), Opened: true},
		sluice.FixedWindow{Rate: sluice.Per(20, 500*time.Millisecond), Opened: true},
		sluice.FixedWindow{Rate: sluice.Per(15, time.Second)},
	},
	"fixed_window_calendar": {
		sluice.FixedWindow{Rate: sluice.PerDay(4), Calendar: sluice.CalendarDay},
		sluice.FixedWindow{Rate: sluice.PerSecond(20)},
	},
	"sliding_window": {
		sluice.SlidingWindow{Rate: sluice.Per(4, time.Second), Cells: 4},
		sluice.SlidingWindow{Rate: sluice.Per(20, 500*time.Millisecond)},
		sluice.SlidingWindow{Rate: sluice.Per(15, time.Second), Cells: 4},
	},
	"sliding_counter": {
		sluice.SlidingCounter{Rate: sluice.Per(4, time.Second)},
		sluice.SlidingCounter{Rate: sluice.Per(20, 500*time.Millisecond)},
		sluice.SlidingCounter{Rate: sluice.Per(15, time.Second)},
	},
	"sliding_log": {
		sluice.SlidingLog{Rate: sluice.Per(4, time.Second), MinInterval: 100 * time.Millisecond},
		sluice.SlidingLog{Rate: sluice.Per(20, 500*time.Millisecond)},
		sluice.SlidingLog{Rate: sluice.Per(15, time.Second)},
	},
	"concurrency": {
		sluice.Concurrency{Max: 3, TTL: time.Second},
		sluice.Concurrency{Max: 20, TTL: 3 * time.Second},
	},
}

// versions runs a test for the versions of each algorithm, with a fresh store.
func (s *subject) versions(test func(s *subject, r *rand.Rand, limits []*sluice.Limit)) {
	for name, algorithms := range changing {
		s.Run(name, func(t *testing.T) {
			var limits []*sluice.Limit
			for _, a := range algorithms {
				limits = append(limits, limit("change", a))
			}
			test(s.suite.subject(t), source(7), limits)
		})
	}
}

// changeDenials: requests come under any version, in any order. Another key that gets no denied request
// has the same decisions.
func changeDenials(s *subject) {
	quiet := sluice.StringKey("198.51.100.7")
	s.versions(func(s *subject, r *rand.Rand, limits []*sluice.Limit) {
		for i := range s.suite.random(300) {
			s.clock.Advance(pause(r, 600*time.Millisecond))
			q := s.complete(sluice.Request{Limit: limits[r.IntN(len(limits))], Key: key, Cost: r.Int64N(5)})
			if r.IntN(4) == 0 {
				q.MaxWait = 300 * time.Millisecond
			}
			var got sluice.Decision
			if r.IntN(3) == 0 {
				other := sluice.Request{Limit: limits[0], Key: sluice.StringKey("another"), Peek: true}
				got = s.batch(q, other)[0]
			} else {
				got = s.decide(q)
			}
			q.Key, q.Peek = quiet, !got.Allowed
			s.same(s.decide(q), got, "request %d, without the denials before it", i)
		}
	})
}

// changeReturns: RetryAfter and ResetAfter hold to the microsecond while nothing else happens.
func changeReturns(s *subject) {
	s.versions(func(s *subject, r *rand.Rand, limits []*sluice.Limit) {
		for range s.suite.random(200) {
			s.clock.Advance(pause(r, 400*time.Millisecond))
			l := limits[r.IntN(len(limits))]
			cost := 1 + r.Int64N(3)
			got := s.take(l, key, cost)
			s.returns(sample{lease: l.IsConcurrency()}, l, cost, got)
		}
	})
}

// attack is two versions of a limit, and the most that the larger one admits in a time.
type attack struct {
	name     string
	old, new sluice.Algorithm
	most     func(time.Duration) int64
}

var attacks = []attack{
	{
		"token_bucket",
		sluice.TokenBucket{Rate: sluice.PerSecond(100), Burst: 10},
		sluice.TokenBucket{Rate: sluice.PerSecond(100), Burst: 1000},
		func(w time.Duration) int64 { return 1000 + int64(100*w/time.Second) },
	},
	{
		"token_bucket_rate",
		sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 100},
		sluice.TokenBucket{Rate: sluice.PerSecond(100), Burst: 100},
		func(w time.Duration) int64 { return 100 + int64(100*w/time.Second) },
	},
	{
		"leaky_bucket",
		sluice.LeakyBucket{Rate: sluice.PerSecond(100), Queue: 9, Undelayed: 9},
		sluice.LeakyBucket{Rate: sluice.PerSecond(100), Queue: 999, Undelayed: 999},
		func(w time.Duration) int64 { return 1000 + int64(100*w/time.Second) },
	},
	{
		"fixed_window",
		sluice.FixedWindow{Rate: sluice.PerSecond(10)},
		sluice.FixedWindow{Rate: sluice.PerMinute(300)},
		func(time.Duration) int64 { return 600 },
	},
	{
		"fixed_window_opened",
		sluice.FixedWindow{Rate: sluice.PerSecond(10), Opened: true},
		sluice.FixedWindow{Rate: sluice.PerMinute(300), Opened: true},
		func(time.Duration) int64 { return 600 },
	},
	{
		"sliding_window",
		sluice.SlidingWindow{Rate: sluice.PerSecond(10)},
		sluice.SlidingWindow{Rate: sluice.PerMinute(300)},
		func(time.Duration) int64 { return 300 },
	},
	{
		"sliding_counter",
		sluice.SlidingCounter{Rate: sluice.PerSecond(10)},
		sluice.SlidingCounter{Rate: sluice.PerMinute(300)},
		func(time.Duration) int64 { return 599 },
	},
	{
		"sliding_log",
		sluice.SlidingLog{Rate: sluice.PerSecond(10)},
		sluice.SlidingLog{Rate: sluice.PerMinute(300)},
		func(time.Duration) int64 { return 300 },
	},
}

// changeAttack: programs of two versions share a store, as in a deployment, or the limit of one program
// is set to and fro. A client takes all that one version has, makes one request to the other one, waits for
// 110 ms, and repeats this for ten seconds.
func changeAttack(s *subject) {
	for _, a := range attacks {
		for _, first := range []int{0, 1} {
			s.Run(fmt.Sprintf("%s/%d", a.name, first), func(t *testing.T) {
				s := s.suite.subject(t)
				limits := []*sluice.Limit{limit("attack", a.old), limit("attack", a.new)}
				one := sluice.NewLimiter(s.store, limits[0])
				admitted := int64(0)
				try := func(l *sluice.Limit, cost int64) bool {
					if err := one.SetLimit(l); err != nil {
						s.Fatal(err)
					}
					d, err := one.AllowN(s.Context(), key, cost)
					if err != nil {
						s.Fatal(err)
					}
					if d.Allowed {
						admitted += cost
					}
					return d.Allowed
				}
				began := s.clock.Now()
				for range 95 {
					for left := s.peek(limits[first], key, 0).Remaining; left > 0 && try(limits[first], left); {
						left = s.peek(limits[first], key, 0).Remaining
					}
					try(limits[first], 1)
					try(limits[1-first], 1)
					s.clock.Advance(110 * time.Millisecond)
				}
				within := time.Duration(s.clock.Now()-began) * time.Microsecond
				if most := a.most(within); admitted > most {
					s.Errorf("%d admitted in %v; the larger version admits %d", admitted, within, most)
				}
			})
		}
	}
}

// changePromptly: after a limit was raised, a key that had used everything is admitted soon, when
// RetryAfter says so. Requests in between make no difference. After it was lowered, the new bound holds.
func changePromptly(s *subject) {
	perHour, perSecond := sluice.PerHour(5), sluice.PerSecond(5)
	for name, of := range map[string]func(r sluice.Rate) sluice.Algorithm{
		"token_bucket":        func(r sluice.Rate) sluice.Algorithm { return sluice.TokenBucket{Rate: r} },
		"leaky_bucket":        func(r sluice.Rate) sluice.Algorithm { return sluice.LeakyBucket{Rate: r, Queue: 4, Undelayed: 4} },
		"fixed_window":        func(r sluice.Rate) sluice.Algorithm { return sluice.FixedWindow{Rate: r} },
		"fixed_window_opened": func(r sluice.Rate) sluice.Algorithm { return sluice.FixedWindow{Rate: r, Opened: true} },
		"sliding_window":      func(r sluice.Rate) sluice.Algorithm { return sluice.SlidingWindow{Rate: r} },
		"sliding_counter":     func(r sluice.Rate) sluice.Algorithm { return sluice.SlidingCounter{Rate: r} },
		"sliding_log":         func(r sluice.Rate) sluice.Algorithm { return sluice.SlidingLog{Rate: r} },
	} {
		s.Run(name, func(t *testing.T) {
			s := s.suite.subject(t)
			lim := sluice.NewLimiter(s.store, limit("raised", of(perHour)))
			s.take(lim.Limit(), key, 5)
			s.clock.Advance(20 * time.Millisecond)
			s.denied(s.take(lim.Limit(), key, 1), sluice.ReasonLimited, "all of the hour is used")
			if err := lim.SetLimit(limit("raised", of(perSecond))); err != nil {
				s.Fatal(err)
			}
			raised := s.clock.Now()
			first := s.take(lim.Limit(), key, 1)
			if first.Allowed || first.RetryAfter > 2*time.Second {
				s.Fatalf("right after the limit was raised: %+v", first)
			}
			for s.clock.Advance(100 * time.Millisecond); ; s.clock.Advance(100 * time.Millisecond) {
				left := first.RetryAfter - time.Duration(s.clock.Now()-raised)*time.Microsecond
				d := s.take(lim.Limit(), key, 1)
				if d.Allowed != (left <= 0) || !d.Allowed && d.RetryAfter != left {
					s.Fatalf("%v before the end of the wait: %+v", left, d)
				}
				if d.Allowed {
					break
				}
			}
			if err := lim.SetLimit(limit("raised", of(perHour))); err != nil {
				s.Fatal(err)
			}
			admitted := int64(0)
			for range 200 {
				s.clock.Advance(100 * time.Millisecond)
				if s.take(lim.Limit(), key, 1).Allowed {
					admitted++
				}
			}
			if admitted > 5 {
				s.Errorf("%d admitted after the limit was lowered to five an hour", admitted)
			}
		})
	}
	s.Run("moments", func(t *testing.T) {
		s := s.suite.subject(t)
		slow := limit("rate", sluice.TokenBucket{Rate: sluice.PerHour(1), Burst: 10})
		fast := limit("rate", sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 10})
		s.take(slow, key, 10)
		s.clock.Advance(1500 * time.Millisecond)
		s.allowed(s.take(fast, key, 10), "1.5 s at ten a second")
	})
}
