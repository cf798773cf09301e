package algo_test

import (
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/sluicehq/sluice/internal/algo"
)

// under decides a request under any numbers of the machine's algorithm, as a store does: a denial
// leaves a state under other numbers as it is, unless the algorithm says that it moves.
func (m *machine) under(p *algo.Params, req algo.Request, commit bool) algo.Result {
	if p == m.p {
		return m.decide(req, commit)
	}
	var res algo.Result
	other := &machine{p: m.p, s: m.s, w: slices.Clone(m.w)}
	other.convert(*p, req.Now)
	p.Evaluate(other.s, other.w, &req, &res)
	fresh := m.fresh(req.Now)
	moves := p.Inline() && p.MovesState(m.p, m.s, req.Now) || !p.Inline() && p.MovesWords(m.p, m.w, req.Now)
	switch {
	case commit && req.Cost > 0 && (res.Allowed || moves || req.Debit && fresh):
		other.p = p
		*m = *other
		return m.decide(req, true)
	case req.Debit && req.Cost > 0 && !res.Allowed && !moves && !fresh: // it is booked under the numbers of the state
		if !commit {
			m = &machine{p: m.p, s: m.s, w: slices.Clone(m.w)}
		}
		plain := req
		plain.Debit = false
		before := m.under(p, plain, false)
		m.decide(algo.Request{Now: req.Now, Cost: req.Cost, Debit: true}, true)
		if after := m.under(p, plain, false); !after.Allowed {
			return after
		}
		return before
	case moves || (res.Allowed || req.Debit) && req.Cost > 0:
	case p.Inline():
		p.AwaitState(m.p, m.s, &req, &res)
	default:
		p.AwaitWords(m.p, m.w, &req, &res)
	}
	return res
}

// versions makes two or three numbers of one algorithm, and what schedules over them may contain.
func versions(c *chooser, s subject) ([]*algo.Params, plan) {
	var ps []*algo.Params
	var all plan
	for range 2 + c.below(2) {
		p, _, q := s(c)
		ps = append(ps, &p)
		if all.unit == 0 || c.oneIn(2) {
			all.pace = q.pace
		}
		all.capacity = max(all.capacity, q.capacity)
		all.floors, all.waits, all.debits, all.overdraws, all.members = q.floors, q.waits, q.debits, q.overdraws, q.members
	}
	if c.oneIn(2) { // nearly the same numbers
		last := *ps[0]
		switch last.Kind {
		case algo.KindFixedWindow:
			last.Fixed.Count += c.below(9)
			last.Capacity = last.Fixed.Count
		case algo.KindSlidingWindow:
			last.Cells.Count += c.below(9)
			last.Capacity = last.Cells.Count
		case algo.KindSlidingCounter:
			last.Counter.Count += c.below(9)
			last.Capacity = last.Counter.Count
		case algo.KindSlidingLog:
			last.Log.Length *= 1 + c.below(5)
		}
		ps[len(ps)-1] = &last
	}
	return ps, all
}

// forAllVersions checks a law of all algorithms whose numbers change.
func forAllVersions(t *testing.T, n int, holds func(t *testing.T, c *chooser, ps []*algo.Params, q plan)) {
	t.Helper()
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			law(t, n, func(t *testing.T, c *chooser) {
				ps, q := versions(c, s)
				holds(t, c, ps, q)
			})
		})
	}
}

// TestDenialUnderOtherNumbersChangesNothing: a schedule with its denied requests and peeks, under
// any numbers in any order, has the same decisions as the schedule without them.
func TestDenialUnderOtherNumbersChangesNothing(t *testing.T) {
	forAllVersions(t, 120, func(t *testing.T, c *chooser, ps []*algo.Params, q plan) {
		for _, p := range ps {
			if p.CountsDenied() {
				return
			}
		}
		m, quiet, now := newMachine(*ps[0]), newMachine(*ps[0]), begin(c, q)
		m.p, quiet.p = ps[0], ps[0]
		var log []string
		for range 60 {
			now += c.step(q.pace, 0)
			p, req := ps[c.below(int64(len(ps)))], q.request(c, now)
			want := quiet.under(p, req, false)
			got := m.under(p, req, true)
			log = append(log, fmt.Sprintf("%s %+v: %+v", numbers(p), req, got))
			if got != want {
				t.Errorf("%s\n without the denials before it: %+v", tail(log), want)
				return
			}
			if got.Allowed || req.Debit {
				quiet.under(p, req, true)
			}
		}
	})
}

func tail(log []string) string {
	return fmt.Sprintf("%q", log[max(0, len(log)-6):])
}

// TestRetryAfterUnderOtherNumbers: a client that comes back after RetryAfter, with the same numbers,
// is admitted, and a microsecond earlier it is not. After ResetAfter the state equals a fresh one. Two kinds of requests
// may be admitted earlier. If denied requests count, a request that costs nothing has the RetryAfter of a state that
// another denial has moved to its numbers, but moves no state itself. A debit of a sliding log that comes back early drops
// units that decide nothing under the numbers of the state, and then fewer are left under its own.
func TestRetryAfterUnderOtherNumbers(t *testing.T) {
	forAllVersions(t, 120, func(t *testing.T, c *chooser, ps []*algo.Params, q plan) {
		m, now := newMachine(*ps[0]), begin(c, q)
		m.p = ps[0]
		for range 60 {
			now += c.step(q.pace, 0)
			p, req := ps[c.below(int64(len(ps)))], q.request(c, now)
			before := m.state()
			res := m.under(p, req, true)
			if res.Allowed || res.Reason == algo.Never {
				if res.RetryAfter != 0 {
					t.Errorf("%s: %+v must retry: %+v", numbers(p), req, res)
				}
				continue
			}
			later := req
			later.Now += res.RetryAfter
			onTime := m.under(p, later, false)
			later.Now--
			early := m.under(p, later, false)
			late := p.Kind == algo.KindConcurrency || req.Cost == 0 && p.CountsDenied() || req.Debit && p.Kind == algo.KindSlidingLog
			if res.RetryAfter <= 0 || !onTime.Allowed || early.Allowed && !late {
				t.Errorf("%s, %s of %s: %+v got %+v; at that time %+v, before it %+v",
					numbers(p), before, numbers(m.p), req, res, onTime, early)
				return
			}
			later = algo.Request{Now: now + res.ResetAfter, Member: 1 << 40}
			if reset := m.under(p, later, false); reset.ResetAfter != 0 || reset.Remaining != p.Capacity {
				t.Errorf("%s, %s of %s: %+v got %+v; after the reset %+v", numbers(p), before, numbers(m.p), req, res, reset)
				return
			}
		}
	})
}

// acts is when the units of an allowed request act, unit by unit for a leaky bucket.
func acts(p *algo.Params, req algo.Request, res algo.Result) (ds []departure) {
	switch p.Kind {
	case algo.KindBucket:
		return []departure{{moment(p.Bucket.Pace, charge(req, res)), req.Cost}}
	case algo.KindLeaky:
		b := &p.Leaky
		for k := range req.Cost {
			late := new(big.Rat).SetFrac(
				new(big.Int).SetUint64(res.Over-uint64(k+1)*b.Den), new(big.Int).SetUint64(b.Num))
			late.Sub(late, new(big.Rat).SetFrac64(b.Undelayed*int64(b.Den), int64(b.Num)))
			at := rat(res.At, 1)
			if late.Sign() > 0 {
				at.Add(at, late)
			}
			ds = append(ds, departure{at, 1})
		}
		return ds
	default:
		return []departure{{rat(max(res.At, req.Now+res.Delay), 1), req.Cost}}
	}
}

// TestChangesBoundOfPaces: whichever numbers of a bucket are used in whichever order, over any interval no
// more act than the largest burst and the highest rate admit: the larger of both bounds, if one of
// them has the larger burst and the higher rate.
func TestChangesBoundOfPaces(t *testing.T) {
	for name, s := range map[string]subject{"token bucket": bucket, "warm bucket": warmBucket, "leaky bucket": leaky} {
		t.Run(name, func(t *testing.T) {
			law(t, 500, func(t *testing.T, c *chooser) {
				ps, q := versions(c, s)
				if q.capacity > 40 && name == "leaky bucket" {
					return // units are listed one by one
				}
				burst, rate, slack := int64(0), rat(0, 1), rat(0, 1)
				for _, p := range ps {
					pace := p.Bucket.Pace
					switch p.Kind {
					case algo.KindLeaky:
						pace = p.Leaky.Pace
						burst = max(burst, p.Leaky.Undelayed+1)
					case algo.KindWarmBucket:
						pace = p.Warm.Pace
						burst = max(burst, p.Warm.Burst)
						slack = rat(1, 1) // moments are rounded up to microseconds
					default:
						burst = max(burst, p.Bucket.Burst)
					}
					if r := rat(int64(pace.Num), int64(pace.Den)); r.Cmp(rate) > 0 {
						rate = r
					}
				}
				slack.Mul(slack, rate)
				m, now := newMachine(*ps[0]), begin(c, q)
				m.p, q.overdraws = ps[0], false
				var ds []departure
				for range 60 {
					now += c.step(q.pace, 0)
					p, req := ps[c.below(int64(len(ps)))], q.request(c, now)
					commit := !c.oneIn(10)
					if res := m.under(p, req, commit); res.Allowed && req.Cost > 0 && commit {
						ds = append(ds, acts(p, req, res)...)
					}
				}
				bound := func(w *big.Rat) *big.Rat {
					b := new(big.Rat).Mul(w, rate)
					return b.Add(b, rat(burst, 1))
				}
				if over := worst(ds, bound); over.Cmp(slack) > 0 {
					for _, p := range ps {
						t.Log(numbers(p))
					}
					t.Errorf("%s too many act", over.FloatString(3))
				}
			})
		})
	}
}

// inTurn makes 60 requests, each under numbers that are chosen at random, and returns when and how many units
// were admitted.
func (m *machine) inTurn(c *chooser, q plan, ps []*algo.Params, now int64) (at, units []int64) {
	q.overdraws = false
	for range 60 {
		now += c.step(q.pace, 0)
		p, req := ps[c.below(int64(len(ps)))], q.request(c, now)
		if res := m.under(p, req, true); res.Allowed && req.Cost > 0 {
			at, units = append(at, now), append(units, req.Cost)
		}
	}
	return at, units
}

// windowOf returns the count and the length of a window or a log, and how many more periods than
// it is long an interval touches.
func windowOf(p *algo.Params) (count, length, more int64) {
	switch p.Kind {
	case algo.KindFixedWindow:
		return p.Fixed.Count, p.Fixed.Length, 2
	case algo.KindSlidingCounter:
		return p.Counter.Count, p.Counter.Length, 2
	case algo.KindSlidingWindow:
		return p.Cells.Count, p.Cells.Length, 1
	default:
		return p.Log.Count, p.Log.Length, 1
	}
}

// TestChangesBoundOfWindows: whichever numbers of a window are used in whichever order, over any
// interval no more than the sum of their bounds is admitted. Sliding windows and logs admit no more than
// the largest count over the shortest period.
func TestChangesBoundOfWindows(t *testing.T) {
	for name, s := range map[string]subject{
		"fixed window": fixedWindow, "sliding window": slidingWindow,
		"sliding counter": slidingCounter, "sliding log": slidingLog,
	} {
		t.Run(name, func(t *testing.T) {
			law(t, 500, func(t *testing.T, c *chooser) {
				ps, q := versions(c, s)
				q.floors = false
				most, shortest := int64(0), int64(1<<62)
				for _, p := range ps {
					count, length, _ := windowOf(p)
					most, shortest = max(most, count), min(shortest, length)
				}
				m, now := newMachine(*ps[0]), begin(c, q)
				m.p = ps[0]
				at, units := m.inTurn(c, q, ps, now)
				for i := range at {
					sum := int64(0)
					for j := i; j < len(at); j++ {
						sum += units[j]
						within, bound := at[j]-at[i], int64(0)
						for _, p := range ps {
							count, length, more := windowOf(p)
							bound += count * (within/length + more)
						}
						if sliding := ps[0].Kind == algo.KindSlidingWindow || ps[0].Kind == algo.KindSlidingLog; sliding && within < shortest {
							bound = most
						}
						if sum > bound {
							for _, p := range ps {
								t.Log(numbers(p))
							}
							t.Errorf("%d within %d, of %v at %v; the bound is %d", sum, within, units, at, bound)
							return
						}
					}
				}
			})
		})
	}
}

// TestChangesOfTheCountBound: if only the count of a window changes, no more than the bound of the
// largest count is admitted.
func TestChangesOfTheCountBound(t *testing.T) {
	for name, s := range map[string]subject{
		"fixed window": fixedWindow, "sliding window": slidingWindow,
		"sliding counter": slidingCounter, "sliding log": slidingLog,
	} {
		t.Run(name, func(t *testing.T) {
			law(t, 250, func(t *testing.T, c *chooser) {
				p, _, q := s(c)
				ps := []*algo.Params{&p}
				for range 1 + c.below(3) {
					o := p
					o.Capacity = 1 + c.below(2*p.Capacity)
					o.Fixed.Count, o.Counter.Count, o.Cells.Count = o.Capacity, o.Capacity, o.Capacity
					o.Log.Count = min(o.Capacity, algo.MaxLogCount)
					o.Capacity = max(o.Capacity, 1)
					ps = append(ps, &o)
				}
				most, length := int64(0), int64(0)
				for _, p := range ps {
					count, l, _ := windowOf(p)
					most, length = max(most, count), l
				}
				bound := map[algo.Kind]int64{
					algo.KindFixedWindow: 2 * most, algo.KindSlidingCounter: 2*most - 1,
				}[p.Kind]
				bound = max(bound, most)
				m, now := newMachine(p), begin(c, q)
				m.p = &p
				at, units := m.inTurn(c, q, ps, now)
				for i := range at {
					sum := int64(0)
					for j := i; j < len(at) && at[j]-at[i] < length; j++ {
						sum += units[j]
					}
					if sum > bound {
						t.Errorf("%s: %d from %d on, of %v at %v; the bound is %d", numbers(&p), sum, at[i], units, at, bound)
						return
					}
				}
			})
		})
	}
}
