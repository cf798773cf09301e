package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// resized are the algorithms with n units. If the algorithm refills, five units come back per
// second.
var resized = map[string]func(n int64) sluice.Algorithm{
	"token_bucket": func(n int64) sluice.Algorithm { return sluice.TokenBucket{Rate: fivePerSecond, Burst: n} },
	"leaky_bucket": func(n int64) sluice.Algorithm { return sluice.LeakyBucket{Rate: fivePerSecond, Queue: n - 1} },
	"fixed_window": func(n int64) sluice.Algorithm { return sluice.FixedWindow{Rate: sluice.PerSecond(n)} },
	"fixed_window_opened": func(n int64) sluice.Algorithm {
		return sluice.FixedWindow{Rate: sluice.PerSecond(n), Opened: true}
	},
	"sliding_window":  func(n int64) sluice.Algorithm { return sluice.SlidingWindow{Rate: sluice.PerSecond(n)} },
	"sliding_counter": func(n int64) sluice.Algorithm { return sluice.SlidingCounter{Rate: sluice.PerSecond(n)} },
	"sliding_log":     func(n int64) sluice.Algorithm { return sluice.SlidingLog{Rate: sluice.PerSecond(n)} },
	"concurrency":     func(n int64) sluice.Algorithm { return sluice.Concurrency{Max: n, TTL: time.Second} },
}

// convert: when a limit's numbers change, used units stay used.
func convert(s *subject) {
	for name, alg := range resized {
		s.Run(name, func(t *testing.T) {
			s := s.suite.subject(t)
			l, larger, smaller := limit("l", alg(5)), limit("l", alg(10)), limit("l", alg(2))
			s.take(l, key, 3)
			before := s.view(l, key)
			s.remaining(larger, key, 7, "three of five used, seen under ten")
			s.remaining(smaller, key, 0, "three of five used, seen under two")
			s.denied(s.take(smaller, key, 1), sluice.ReasonLimited, "one more under two")
			s.denied(s.take(larger, key, 8), sluice.ReasonLimited, "eight more under ten")
			s.unmoved(before, l, key, "peeks and denials under other numbers")

			if d := s.take(larger, key, 7); !d.Allowed || d.Remaining != 0 || d.Limit != 10 {
				s.Fatalf("all that is left under ten: %+v", d)
			}
			s.denied(s.take(larger, key, 1), sluice.ReasonLimited, "one more under ten")
			s.denied(s.take(l, key, 1), sluice.ReasonLimited, "one more under five again")
			s.denied(s.take(smaller, key, 1), sluice.ReasonLimited, "one more under two")

			// A state that time has made fresh is fresh under all numbers, whether or not a store
			// has forgotten it.
			s.clock.Advance(time.Minute)
			s.remaining(larger, key, 10, "a minute later, under ten")
			s.allowed(s.take(larger, key, 10), "all of ten, a minute later")

			// Another key is not affected.
			other := sluice.StringKey("198.51.100.7")
			s.take(smaller, other, 1)
			s.remaining(smaller, other, 1, "another key")
		})
	}
	s.Run("rate", func(t *testing.T) {
		s := s.suite.subject(t)
		slow := limit("rate", sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 5})
		fast := limit("rate", sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 5})
		s.take(slow, key, 5)
		s.clock.Advance(500 * time.Millisecond)
		// The higher of both rates counts, since the latest charge.
		if d := s.take(fast, key, 3); !d.Allowed || d.Remaining != 2 || d.ResetAfter != 300*time.Millisecond {
			s.Errorf("half a second at ten a second, then three taken: %+v", d)
		}
		s.clock.Advance(100 * time.Millisecond)
		if d := s.peek(slow, key, 5); d.RetryAfter != 200*time.Millisecond || d.ResetAfter != 200*time.Millisecond {
			s.Errorf("two units at ten a second: %+v", d)
		}
		// A lower rate counts from the first charge under it.
		if d := s.take(slow, key, 3); !d.Allowed || d.Remaining != 0 || d.ResetAfter != time.Second {
			s.Errorf("three units at five a second: %+v", d)
		}
	})
	s.Run("warm_up", func(t *testing.T) {
		s := s.suite.subject(t)
		slow := limit("warm", sluice.TokenBucket{Rate: sluice.PerSecond(5), Burst: 5, WarmUp: time.Second})
		fast := limit("warm", sluice.TokenBucket{Rate: sluice.PerSecond(10), Burst: 5, WarmUp: time.Second})
		s.take(slow, key, 1)
		if d := s.peek(fast, key, 1); d.Allowed || d.RetryAfter != 520*time.Millisecond {
			s.Errorf("what is owed is owed for the same time: %+v", d)
		}
	})
	s.Run("cells", func(t *testing.T) {
		s := s.suite.subject(t)
		few := limit("cells", sluice.SlidingWindow{Rate: sluice.PerSecond(5), Cells: 5})
		many := limit("cells", sluice.SlidingWindow{Rate: sluice.PerSecond(5), Cells: 100})
		s.take(few, key, 4)
		s.clock.Advance(300 * time.Millisecond)
		s.allowed(s.take(many, key, 1), "the fifth unit, under other cells")
		s.denied(s.take(many, key, 1), sluice.ReasonLimited, "the sixth unit")
		s.clock.Advance(1100 * time.Millisecond)
		s.remaining(many, key, 5, "a window and a cell later")
	})
	s.Run("set_limit", func(t *testing.T) {
		s := s.suite.subject(t)
		lim := sluice.NewLimiter(s.store, limit("set", sluice.FixedWindow{Rate: sluice.PerHour(5)}))
		s.take(lim.Limit(), key, 5)
		if err := lim.SetLimit(limit("set", sluice.FixedWindow{Rate: sluice.PerHour(8)})); err != nil {
			s.Fatal(err)
		}
		s.remaining(lim.Limit(), key, 3, "five used, of eight")
	})
}

// convertRandom: however its numbers change, a limit admits no more than the largest numbers
// allow. A peek under new numbers agrees with the decision.
func convertRandom(s *subject) {
	for name, alg := range resized {
		s.Run(name, func(t *testing.T) {
			s := s.suite.subject(t)
			r := source(5)
			const most = 8
			var admitted []event
			for i := range s.suite.random(500) {
				s.clock.Advance(pause(r, 300*time.Millisecond))
				l := limit("l", alg(3+r.Int64N(most-2)))
				q := s.complete(sluice.Request{Limit: l, Key: key, Cost: r.Int64N(3)})
				p := q
				p.Peek = true
				seen, none := s.decide(p), s.peek(l, key, 0)
				left := none.Remaining
				got := s.decide(q)
				s.foreseen(seen, got, none)
				if got.Allowed && seen.Remaining != left || left > l.Capacity() {
					s.Fatalf("request %d of %d under %v: %d remain, and %d", i, q.Cost, l, seen.Remaining, left)
				}
				if got.Allowed && q.Cost > left || !got.Allowed && q.Cost > 0 && q.Cost <= left {
					s.Fatalf("request %d of %d under %v, with %d left: %+v", i, q.Cost, l, left, got)
				}
				if got.Allowed {
					admitted = append(admitted, event{s.clock.Now(), q.Cost})
				}
			}
			bound := map[string]func(time.Duration) int64{
				"token_bucket":        func(w time.Duration) int64 { return most + int64(5*w/time.Second) },
				"leaky_bucket":        func(w time.Duration) int64 { return most + int64(5*w/time.Second) },
				"fixed_window":        windows(2 * most),
				"fixed_window_opened": windows(2 * most),
				"sliding_counter":     windows(2*most - 1),
			}[name]
			if bound == nil {
				bound = windows(most)
			}
			s.bounded(sample{bound: bound}, admitted)
		})
	}
}

// prolonged are algorithms with 5·n units in n seconds.
var prolonged = map[string]func(n int64) sluice.Algorithm{
	"token_bucket":    func(n int64) sluice.Algorithm { return sluice.TokenBucket{Rate: every(n)} },
	"leaky_bucket":    func(n int64) sluice.Algorithm { return sluice.LeakyBucket{Rate: every(n), Queue: 5*n - 1} },
	"fixed_window":    func(n int64) sluice.Algorithm { return sluice.FixedWindow{Rate: every(n)} },
	"sliding_window":  func(n int64) sluice.Algorithm { return sluice.SlidingWindow{Rate: every(n)} },
	"sliding_counter": func(n int64) sluice.Algorithm { return sluice.SlidingCounter{Rate: every(n)} },
	"sliding_log":     func(n int64) sluice.Algorithm { return sluice.SlidingLog{Rate: every(n)} },
}

func every(n int64) sluice.Rate { return sluice.Per(5*n, time.Duration(n)*time.Second) }

// convertInTurn: programs with two versions of a limit use a key in turn, as in a deployment. Used
// units expire as under one version: denials do not prolong them.
func convertInTurn(s *subject) {
	for name, alg := range prolonged {
		for _, batch := range []bool{false, true} {
			s.Run(fmt.Sprintf("%s/batch=%v", name, batch), func(t *testing.T) {
				s := s.suite.subject(t)
				limits := []*sluice.Limit{limit("l", alg(2)), limit("l", alg(3))}
				s.take(limits[1], key, 15)
				const steps = 100
				allowed := 0
				for i := range steps { // for 10 s, of which some six are enough
					s.clock.Advance(100 * time.Millisecond)
					rs := []sluice.Request{{Limit: limits[i%2], Key: key, Cost: 1}}
					if batch {
						rs = append(rs, sluice.Request{Limit: limits[i%2], Key: sluice.StringKey("another"), Peek: true})
					}
					out := make([]sluice.Decision, len(rs))
					if err := s.store.DecideAll(s.Context(), rs, out); err != nil {
						s.Fatal(err)
					}
					if out[0].Allowed {
						allowed++
					}
				}
				if allowed < 15 {
					s.Errorf("of %d requests in %v, %d were allowed; want 15 or more at five a second", steps, steps*100*time.Millisecond, allowed)
				}
			})
		}
	}
}

// convertCharge: a charge made under old numbers of a limit can be settled and cancelled under new
// numbers. It gives back no more than it took.
func convertCharge(s *subject) {
	for name, alg := range resized {
		s.Run(name, func(t *testing.T) {
			s := s.suite.subject(t)
			l, larger := limit("l", alg(5)), limit("l", alg(10))
			first := s.charge(sluice.Request{Limit: l, Key: key, Cost: 2})
			second := s.charge(sluice.Request{Limit: l, Key: key, Cost: 1})
			before := s.peek(larger, key, 0).Remaining // 2 of a bucket, 7 of the others
			s.allowed(s.take(larger, key, 0), "no unit under ten")
			third := s.charge(sluice.Request{Limit: larger, Key: key, Cost: 1})
			s.cancel(third)
			s.remaining(larger, key, before, "a charge under ten, canceled")
			s.cancel(second)
			s.remaining(larger, key, before+1, "a charge under five, canceled under ten")
			if name == "concurrency" {
				return
			}
			s.settle(first, 0)
			s.remaining(larger, key, before+3, "a charge under five, settled at nothing under ten")
		})
	}
}
