package algo_test

import (
	"fmt"
	"math/big"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/oracle"
	"github.com/sluicehq/sluice/internal/soak"
)

// plan bounds the requests of a schedule.
type plan struct {
	pace
	capacity int64
	// floors, waits, ends, debits and overdraws say what the schedule may contain.
	floors, waits, ends, debits, overdraws bool
	// back is the longest jump back of the clock.
	back int64
	// members is how many leases there may be.
	members int64
	// cost and wait bound the requests further, if they are positive.
	cost, wait int64
}

// request makes a random request.
func (q *plan) request(c *chooser, now int64) algo.Request {
	req := algo.Request{Now: now}
	most := q.capacity
	if q.cost > 0 {
		most = min(most, q.cost)
	}
	switch k := c.below(10); {
	case k < 5:
		req.Cost = 1
	case k < 6:
		req.Cost = 0
	case k < 8:
		req.Cost = 1 + c.below(most)
	case k < 9:
		req.Cost = most
	default:
		req.Cost = c.one(most+1, 1+c.below(min(most, 3)), 1<<62, 1<<63-1)
	}
	if q.floors && c.oneIn(4) {
		req.Floor = c.one(1, c.below(q.capacity+1), q.capacity, q.capacity+1, 1<<63-1)
	}
	if q.waits {
		longest := 3 * q.period
		if q.wait > 0 {
			longest = q.wait
		}
		switch c.below(4) {
		case 0:
			req.MaxWait = c.one(-1, -1<<63)
		case 1:
			req.MaxWait = c.one(1, q.unit, 1+c.below(longest))
		case 2:
			req.MaxWait = c.one(longest, 1<<62)
		}
	}
	req.Debit = q.debits && c.oneIn(4)
	if req.Overdraw = q.overdraws && !req.Debit && now > 0 && c.oneIn(3); req.Overdraw && c.oneIn(3) {
		req.Cost = c.one(2*most, 1<<17, 1<<30, 1<<52)
	}
	if q.members > 0 {
		req.Member = 1 + uint64(c.below(q.members))
	}
	return req
}

// equals compares an algorithm with its oracle over random schedules.
func equals(t *testing.T, weight int, s subject) {
	t.Helper()
	law(t, weight, func(t *testing.T, c *chooser) { agree(t, c, s) })
}

// agree runs one schedule against an algorithm and its oracle.
func agree(t *testing.T, c *chooser, s subject) {
	t.Helper()
	p, o, q := s(c)
	m := newMachine(p)
	var trail strings.Builder
	var live []taken
	now := c.one(0, 1, q.period, 5*q.period+3, 1_700_000_000_000_000)
	for n := 0; n < 60 && c.more(); n++ {
		now = max(0, now+c.step(q.pace, min(q.back, now)))
		if now > 1<<53 {
			return
		}
		if k := c.below(12); q.ends && k < 3 && len(live) > 0 {
			j := int(c.below(int64(len(live))))
			e := live[j]
			live = slices.Delete(live, j, j+1)
			if o = e.end(t, c, m, o, &q, now, k == 0, &trail); o == nil {
				return
			}
			continue
		}
		a, peek := q.request(c, now), c.oneIn(5)
		fmt.Fprintf(&trail, "%d request %+v peek=%v state %s", now, a, peek, m.state())
		before := m.state()
		got := m.decide(a, !peek)
		want, of, after := decide(o, a, got)
		fmt.Fprintf(&trail, " -> %+v\n", got)
		took := taken{charge(a, got), of}
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
		if m.fresh(now) != o.Fresh(now) {
			t.Errorf("%s: fresh is %v in %s, want %v, after\n%s", numbers(m.p), m.fresh(now), m.state(), o.Fresh(now), trail.String())
			return
		}
		if got.Allowed {
			live = append(live, took)
		}
	}
}

// taken is a charge of the algorithm and of its oracle.
type taken struct {
	charge algo.Charge
	of     oracle.Charge
}

// end ends a charge: it cancels, settles or releases it. It returns the state after that, and nil if the
// algorithm and the oracle differ.
func (e *taken) end(t *testing.T, c *chooser, m *machine, o oracle.State, q *plan, now int64, settle bool, trail *strings.Builder) oracle.State {
	t.Helper()
	leases, isLeases := o.(oracle.Leases)
	switch {
	case settle && isLeases && !q.waits:
		latency := c.below(3 * q.unit)
		fmt.Fprintf(trail, "%d release %+v after %d\n", now, e.charge, latency)
		if e.charge.Cost == 0 {
			return o // it holds no lease
		}
		got := m.p.Conc.Release(m.w, now, e.charge.Member, latency)
		want, next := leases.Release(now, e.charge.Member, latency)
		if got != want {
			t.Errorf("a lease was held: %v, want %v, after\n%s", got, want, trail.String())
			return nil
		}
		return next
	case settle && m.p.TakesDebits() && c.below(3) == 0:
		give := c.one(1, e.charge.Cost, c.below(2*q.capacity+1), 3*q.capacity)
		fmt.Fprintf(trail, "%d give %d back\n", now, give)
		m.settle(now, algo.Charge{Cost: give, At: algo.Newest}, 0)
		return o.Settle(now, oracle.Charge{Cost: give, At: oracle.Newest}, 0)
	case settle:
		actual := c.one(0, e.charge.Cost, c.below(q.capacity+1), q.capacity+1, 2*q.capacity)
		if q.cost > 0 {
			actual = min(actual, 2*q.cost)
		}
		fmt.Fprintf(trail, "%d settle %+v at %d\n", now, e.charge, actual)
		m.settle(now, e.charge, actual)
		return o.Settle(now, e.of, actual)
	default:
		fmt.Fprintf(trail, "%d cancel %+v\n", now, e.charge)
		m.cancel(now, e.charge)
		return o.Cancel(now, e.of)
	}
}

// decide returns the result, the charge and the state that the oracle expects.
func decide(o oracle.State, req algo.Request, got algo.Result) (algo.Result, oracle.Charge, oracle.State) {
	guess := oracle.Result{RetryAfter: got.RetryAfter, ResetAfter: got.ResetAfter}
	d, c, after := oracle.Decide(o, oracle.Request(req), guess)
	return algo.Result{
		Allowed: d.Allowed, Reason: reasons[d.Reason], Remaining: d.Remaining,
		Delay: d.Delay, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter,
	}, c, after
}

// reasons maps the oracle's reasons to the reasons of a Result.
var reasons = map[oracle.Reason]algo.Reason{
	oracle.None: algo.None, oracle.Limited: algo.Limited, oracle.TooSoon: algo.TooSoon, oracle.Never: algo.Never,
}

// fuzz lets the fuzzer choose the schedule.
func fuzz(f *testing.F, s subject) {
	f.Helper()
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13"))
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, &chooser{data: data}, s) })
}

// rat returns a fraction.
func rat(num, den int64) *big.Rat { return oracle.Rat(num, den) }

// TestEqualsOracle compares each algorithm with its oracle.
func TestEqualsOracle(t *testing.T) {
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) { equals(t, soak.Times(t, 200), s) })
	}
}

// TestFoundSchedulesEqualTheOracle plays schedules that an oracle once decided in another way: a charge with a floor overdraws,
// the clock is set back, and the charge is cancelled in the very microsecond in which it counts as acted.
func TestFoundSchedulesEqualTheOracle(t *testing.T) {
	agree(t, &chooser{rng: rand.New(rand.NewSource(61122968712918070))}, bucket)
}

// The token bucket decides as its oracle.
func FuzzBucket(f *testing.F)     { fuzz(f, bucket) }
func FuzzWarmBucket(f *testing.F) { fuzz(f, warmBucket) }

// The leaky bucket decides as its oracle.
func FuzzLeaky(f *testing.F)          { fuzz(f, leaky) }
func FuzzFixedWindow(f *testing.F)    { fuzz(f, fixedWindow) }
func FuzzSlidingWindow(f *testing.F)  { fuzz(f, slidingWindow) }
func FuzzSlidingCounter(f *testing.F) { fuzz(f, slidingCounter) }
func FuzzSlidingLog(f *testing.F)     { fuzz(f, slidingLog) }

// Leases are decided as their oracle does.
func FuzzConcurrency(f *testing.F) { fuzz(f, concurrency) }

// TestSlidingWindowOfMostEqualsOracle counts denied attempts beyond what a state can count.
func TestSlidingWindowOfMostEqualsOracle(t *testing.T) {
	equals(t, 150, func(c *chooser) (algo.Params, oracle.State, plan) {
		p, o, q := cellsOf(c.one(algo.MaxCount, algo.MaxCount-1, algo.MaxCount/3), 60_000_000, c.one(1, 3, 10), true)
		q.ends = false // a charge gives back less if its cell has reached the most that a state counts
		return p, o, q
	})
}
