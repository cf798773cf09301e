package algo_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/algo"
)

// oracle is an algorithm written from its definition, with rationals and lists,
// sharing nothing with the code under test. It says only whether and when a question
// passes; what is told besides follows from that, see expect.
type oracle interface {
	// ask answers a question and changes nothing.
	ask(a algo.Request) (allowed bool, delay int64, reason algo.Reason)
	// commit does what an answered question does to the state: a charge if it
	// was allowed. ids tell charges apart.
	commit(a algo.Request, allowed bool, id int)
	// remaining is how many units a question like a could still take.
	remaining(a algo.Request) int64
	// fresh reports whether nothing can tell the state from a new one.
	fresh(now int64) bool
	settle(now int64, id int, actual int64)
	cancel(now int64, id int)
	clone() oracle
}

// expect answers a question by an oracle: the wait is the first time at which
// the same question passes, the reset the first at which the state is fresh. It
// returns the state after the question too.
func expect(o oracle, a algo.Request, id int) (algo.Result, oracle) {
	allowed, delay, reason := o.ask(a)
	after := o.clone()
	after.commit(a, allowed, id)
	ans := algo.Result{
		Allowed: allowed, Delay: delay, Reason: reason,
		Remaining: after.remaining(a),
		ResetAfter: first(func(t int64) bool {
			return after.fresh(a.Now + t)
		}),
	}
	if !allowed && reason != algo.Never {
		ans.RetryAfter = first(func(t int64) bool {
			b := a
			b.Now += t
			ok, _, _ := after.ask(b)
			return ok
		})
	}
	return ans, after
}

// first returns the first time from which on f holds.
func first(f func(t int64) bool) int64 {
	if f(0) {
		return 0
	}
	low, high := int64(0), int64(1)
	for !f(high) {
		if high > 1<<62 {
			return -1
		}
		low, high = high, 2*high
	}
	for low+1 < high {
		if mid := low + (high-low)/2; f(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// questions bounds what a schedule asks for.
type questions struct {
	pace
	capacity int64
	// floors, waits and ends say what the schedule may use.
	floors, waits, ends bool
	// back is the longest jump back of the clock.
	back int64
	// members is how many leases are told apart.
	members int64
	// cost and wait bound what is asked for, if they are positive.
	cost, wait int64
}

// ask makes up a question.
func (q *questions) ask(c *chooser, now int64) algo.Request {
	a := algo.Request{Now: now}
	most := q.capacity
	if q.cost > 0 {
		most = min(most, q.cost)
	}
	switch k := c.below(10); {
	case k < 5:
		a.Cost = 1
	case k < 6:
		a.Cost = 0
	case k < 8:
		a.Cost = 1 + c.below(most)
	case k < 9:
		a.Cost = most
	default:
		a.Cost = c.one(most+1, 1+c.below(min(most, 3)), 1<<62, 1<<63-1)
	}
	if q.floors && c.oneIn(4) {
		a.Floor = c.one(1, c.below(q.capacity+1), q.capacity, q.capacity+1, 1<<63-1)
	}
	if q.waits {
		longest := 3 * q.period
		if q.wait > 0 {
			longest = q.wait
		}
		switch c.below(4) {
		case 0:
			a.MaxWait = c.one(-1, -1<<63)
		case 1:
			a.MaxWait = c.one(1, q.unit, 1+c.below(longest))
		case 2:
			a.MaxWait = c.one(longest, 1<<62)
		}
	}
	if q.members > 0 {
		a.Member = 1 + uint64(c.below(q.members))
	}
	return a
}

// subject makes up the numbers of an algorithm, its oracle and what to ask it.
type subject func(c *chooser) (algo.Params, oracle, questions)

// agree runs a schedule against an algorithm and its oracle.
func agree(t *testing.T, c *chooser, s subject) {
	t.Helper()
	p, o, q := s(c)
	m := newMachine(p)
	var trail strings.Builder
	charges := map[int]algo.Charge{}
	var ids []int
	now := c.one(0, 1, q.period, 5*q.period+3, 1_700_000_000_000_000)
	for i := 0; i < 60 && c.more(); i++ {
		now = max(0, now+c.step(q.pace, min(q.back, now)))
		if now > 1<<53 {
			return
		}
		if k := c.below(12); q.ends && k < 3 && len(ids) > 0 {
			j := int(c.below(int64(len(ids))))
			id := ids[j]
			ids = append(ids[:j], ids[j+1:]...)
			if k == 0 {
				actual := c.one(0, charges[id].Cost, c.below(q.capacity+1), q.capacity+1, 2*q.capacity)
				if q.cost > 0 {
					actual = min(actual, 2*q.cost)
				}
				fmt.Fprintf(&trail, "%d settle %d (%+v) at %d\n", now, id, charges[id], actual)
				m.settle(now, charges[id], actual)
				o.settle(now, id, actual)
			} else {
				fmt.Fprintf(&trail, "%d cancel %d (%+v)\n", now, id, charges[id])
				m.cancel(now, charges[id])
				o.cancel(now, id)
			}
			continue
		}
		a, peek := q.ask(c, now), c.oneIn(5)
		fmt.Fprintf(&trail, "%d ask %d %+v peek=%v state %s", now, i, a, peek, m.state())
		before := m.state()
		got := m.decide(a, !peek)
		want, after := expect(o, a, i)
		fmt.Fprintf(&trail, " -> %+v\n", got)
		if got.Allowed {
			charges[i] = charge(a, got)
		}
		got.At, got.Over = 0, 0
		if got != want {
			t.Errorf("after\n%s%s\ngot  %+v\nwant %+v", trail.String(), numbers(m.p), got, want)
			return
		}
		if peek {
			if m.state() != before {
				t.Errorf("a peek wrote %s over %s after\n%s", m.state(), before, trail.String())
				return
			}
			continue
		}
		o = after
		if m.fresh(now) != o.fresh(now) {
			t.Errorf("%s: fresh is %v in %s, want %v, after\n%s", numbers(m.p), m.fresh(now), m.state(), o.fresh(now), trail.String())
			return
		}
		if got.Allowed {
			ids = append(ids, i)
		}
	}
}

// fuzz lets the fuzzer choose the schedule.
func fuzz(f *testing.F, s subject) {
	f.Helper()
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13"))
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, &chooser{data: data}, s) })
}

// largest returns the largest cost up to most that passes.
func largest(most int64, passes func(cost int64) bool) int64 {
	low, high := int64(0), most+1
	for low+1 < high {
		if mid := low + (high-low)/2; passes(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// rat returns a fraction.
func rat(num, den int64) *big.Rat { return big.NewRat(num, den) }

// roundUp returns the least integer that is no less than r.
func roundUp(r *big.Rat) *big.Int {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

// roundDown returns the greatest integer that is no more than r.
func roundDown(r *big.Rat) *big.Int {
	return new(big.Int).Div(r.Num(), r.Denom())
}
