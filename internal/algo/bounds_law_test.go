package algo_test

import (
	"math/big"
	"slices"
	"testing"

	"github.com/sluicehq/sluice/internal/algo"
)

// departure is some admitted units and the moment at which they act.
type departure struct {
	at    *big.Rat
	units int64
}

// worst returns by how much the departures of any interval exceed its bound.
func worst(ds []departure, bound func(w *big.Rat) *big.Rat) *big.Rat {
	slices.SortStableFunc(ds, func(a, b departure) int { return a.at.Cmp(b.at) })
	most := rat(-1, 1)
	for i := range ds {
		sum := int64(0)
		for _, d := range ds[i:] {
			sum += d.units
			over := new(big.Rat).Sub(d.at, ds[i].at)
			if over = over.Sub(rat(sum, 1), bound(over)); over.Cmp(most) > 0 {
				most = over
			}
		}
	}
	return most
}

// linear is the bound start + rate·W.
func linear(start, count, period int64) func(*big.Rat) *big.Rat {
	return func(w *big.Rat) *big.Rat {
		b := new(big.Rat).Mul(w, rat(count, period))
		return b.Add(b, rat(start, 1))
	}
}

// schedule makes random requests, with a clock that goes back by at most one period, and reports
// each charge.
func schedule(c *chooser, q plan, m *machine, charged func(req algo.Request, res algo.Result)) {
	now := begin(c, q)
	latest := now
	q.overdraws = false // see TestOverdrawBound
	for range 60 {
		now = max(0, latest-q.period, now+c.step(q.pace, min(now, q.period)))
		if now > 1<<53 {
			return
		}
		a := q.request(c, now)
		res := m.decide(a, true)
		if (res.Allowed || a.Debit) && a.Cost > 0 || m.p.CountsDenied() {
			latest = max(latest, now) // the state has this time
		}
		charged(a, res)
		if m.p.Kind == algo.KindBucket || m.p.Kind == algo.KindLeaky {
			latest = max(latest, m.s.T) // ends of reservations are known too
		}
	}
}

// TestBucketBound: over any interval at most burst + rate·W units act, at the moments at which
// reservations act, whatever is cancelled and in whichever order.
func TestBucketBound(t *testing.T) {
	law(t, 400, func(t *testing.T, c *chooser) {
		count, period, burst, debt := bucketNumbers(c)
		p := newBucket(count, period, burst, debt)
		q := plan{
			pace: pace{max(1, period/count), p.Bucket.Period()}, capacity: burst,
			floors: c.oneIn(2), waits: true,
		}
		m := newMachine(p)
		live := map[int]algo.Charge{}
		var acts []departure
		n := 0
		schedule(c, q, m, func(req algo.Request, res algo.Result) {
			if res.Allowed && req.Cost > 0 {
				live[n] = charge(req, res)
			}
			n++
			for c.oneIn(3) && len(live) > 0 {
				id := slices.Sorted(keys(live))[c.below(int64(len(live)))]
				ch := live[id]
				if max(req.Now, m.s.T) > ch.At+p.Bucket.Wait(ch.Over) {
					acts = append(acts, departure{moment(p.Bucket.Pace, ch), ch.Cost}) // too late: it has acted
				}
				m.cancel(req.Now, ch)
				delete(live, id)
			}
		})
		for _, ch := range live {
			acts = append(acts, departure{moment(p.Bucket.Pace, ch), ch.Cost})
		}
		if over := worst(acts, linear(burst, count, period)); over.Sign() > 0 {
			t.Errorf("%d/%d burst %d: %s too many act", count, period, burst, over.FloatString(3))
		}
	})
}

// TestBucketBoundWhileManyCancel reserves far ahead and cancels in any order, so that
// reservations rely on others that were partly given back.
func TestBucketBoundWhileManyCancel(t *testing.T) {
	law(t, 1000, func(t *testing.T, c *chooser) {
		count, period, burst := 1+c.below(3), 1+c.below(20), 1+c.below(12)
		p := newBucket(count, period, burst, burst)
		m := newMachine(p)
		live := map[int]algo.Charge{}
		var acts []departure
		for i, now := 0, int64(0); i < 40; i++ {
			now += c.one(0, 0, 0, 1, period)
			if ids := slices.Sorted(keys(live)); c.oneIn(3) && len(ids) > 0 {
				id := ids[c.below(int64(len(ids)))]
				if ch := live[id]; now > ch.At+p.Bucket.Wait(ch.Over) {
					acts = append(acts, departure{moment(p.Bucket.Pace, ch), ch.Cost})
				}
				m.cancel(now, live[id])
				delete(live, id)
				continue
			}
			req := algo.Request{Now: now, Cost: c.one(1, 1+c.below(burst), burst), MaxWait: 1 << 40}
			if res := m.decide(req, true); res.Allowed {
				live[i] = charge(req, res)
			}
		}
		for _, ch := range live {
			acts = append(acts, departure{moment(p.Bucket.Pace, ch), ch.Cost})
		}
		if over := worst(acts, linear(burst, count, period)); over.Sign() > 0 {
			t.Errorf("%d/%d burst %d: %s too many act, of %v", count, period, burst, over.FloatString(3), acts)
		}
	})
}

// moment returns when a charge of a bucket acts, before rounding.
func moment(p algo.Pace, c algo.Charge) *big.Rat {
	at := new(big.Rat).SetFrac(new(big.Int).SetUint64(c.Over), new(big.Int).SetUint64(p.Num))
	return at.Add(at, rat(c.At, 1))
}

func keys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestBucketRefundsComeOnTop: with settlements, no interval holds more charges than burst +
// rate·W plus the refunds in it.
func TestBucketRefundsComeOnTop(t *testing.T) {
	law(t, 200, func(t *testing.T, c *chooser) {
		count, period, burst, debt := bucketNumbers(c)
		m := newMachine(newBucket(count, period, burst, debt))
		q := plan{pace: pace{max(1, period/count), m.p.Bucket.Period()}, capacity: burst}
		var took, net []departure
		schedule(c, q, m, func(req algo.Request, res algo.Result) {
			if !res.Allowed || req.Cost == 0 {
				return
			}
			at := rat(res.At, 1)
			took = append(took, departure{at, req.Cost})
			net = append(net, departure{at, req.Cost})
			if c.oneIn(2) {
				actual := c.below(2*req.Cost + 1)
				m.settle(res.At, charge(req, res), actual)
				if actual < req.Cost {
					net = append(net, departure{at, actual - req.Cost})
				}
			}
		})
		// Everything is settled in the microsecond of its charge, so that the net charges of
		// intervals are bounded.
		if over := worst(merge(net), linear(burst, count, period)); over.Sign() > 0 {
			t.Errorf("%d/%d burst %d: %s too many, of %v", count, period, burst, over.FloatString(3), took)
		}
	})
}

// merge adds up units that depart at the same time.
func merge(ds []departure) (sums []departure) {
	for _, d := range ds {
		if n := len(sums); n > 0 && sums[n-1].at.Cmp(d.at) == 0 {
			sums[n-1].units += d.units
			continue
		}
		sums = append(sums, d)
	}
	return sums
}

// TestWarmBucketBound: a bucket with a cold start admits no more than one without.
func TestWarmBucketBound(t *testing.T) {
	law(t, 150, func(t *testing.T, c *chooser) {
		p, _, q := warmBucket(c)
		m := newMachine(p)
		var acts []departure
		schedule(c, q, m, func(req algo.Request, res algo.Result) {
			if res.Allowed && req.Cost > 0 {
				acts = append(acts, departure{rat(max(res.At, req.Now+res.Delay), 1), req.Cost})
			}
		})
		// Moments are rounded up to microseconds.
		bound := linear(p.Warm.Burst, int64(p.Warm.Num), int64(p.Warm.Den))
		slack := rat(int64(p.Warm.Num), int64(p.Warm.Den))
		if over := worst(acts, bound); over.Cmp(slack) > 0 {
			t.Errorf("%+v: %s too many act", p.Warm, over.FloatString(3))
		}
	})
}

// TestLeakyBound: over any interval at most rate·W + 1 units leave, plus the undelayed ones, unit
// by unit.
func TestLeakyBound(t *testing.T) {
	law(t, 300, func(t *testing.T, c *chooser) {
		p, _, q := leaky(c)
		if q.capacity > 12 {
			return // units are listed one by one
		}
		m := newMachine(p)
		b := &p.Leaky
		var acts []departure
		type queued struct {
			id int
			ch algo.Charge
		}
		var tail []queued
		n := 0
		schedule(c, q, m, func(req algo.Request, res algo.Result) {
			if res.Allowed && req.Cost > 0 {
				n++
				tail = append(tail, queued{n, charge(req, res)})
				for k := range req.Cost {
					ahead := new(big.Rat).SetFrac(
						new(big.Int).SetUint64(res.Over-uint64(k+1)*b.Den), new(big.Int).SetUint64(b.Den))
					late := ahead.Sub(ahead, rat(b.Undelayed, 1))
					at := rat(res.At, 1)
					if late.Sign() > 0 {
						late.Mul(late, new(big.Rat).SetFrac64(int64(b.Den), int64(b.Num)))
						at.Add(at, late)
						if k == 0 && rat(req.Now+res.Delay, 1).Cmp(at) < 0 {
							t.Errorf("%+v: a request acts after its delay of %d µs, %s µs before its last unit leaves", b, res.Delay, new(big.Rat).Sub(at, rat(req.Now+res.Delay, 1)).FloatString(3))
						}
					}
					acts = append(acts, departure{at, 1})
				}
			}
			if last := len(tail) - 1; c.oneIn(5) && last >= 0 && tail[last].ch.At == req.Now && res.Delay > 0 {
				m.cancel(req.Now, tail[last].ch) // at once: none of it has left
				acts = acts[:len(acts)-int(tail[last].ch.Cost)]
				tail = tail[:last]
			}
		})
		if over := worst(acts, linear(1+b.Undelayed, int64(b.Num), int64(b.Den))); over.Sign() > 0 {
			t.Errorf("%+v: %s too many leave", b, over.FloatString(3))
		}
	})
}

// TestWindowBounds bounds what the windows, counters and logs admit over any interval of one
// period.
func TestWindowBounds(t *testing.T) {
	type most func(p *algo.Params) int64
	twice := func(p *algo.Params) int64 { return 2 * p.Capacity }
	once := func(p *algo.Params) int64 { return p.Capacity }
	for name, s := range map[string]struct {
		subject subject
		most    most
		within  func(period int64) int64 // how far apart two charges of an interval are
	}{
		"fixed window":    {fixedWindow, twice, func(p int64) int64 { return p }},
		"sliding window":  {slidingWindow, once, func(p int64) int64 { return p }},
		"sliding counter": {slidingCounter, func(p *algo.Params) int64 { return 2*p.Capacity - 1 }, func(p int64) int64 { return p }},
		"sliding log":     {slidingLog, once, func(p int64) int64 { return p - 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			law(t, 250, func(t *testing.T, c *chooser) {
				p, _, q := s.subject(c)
				m := newMachine(p)
				var at, units []int64
				schedule(c, q, m, func(req algo.Request, res algo.Result) {
					if res.Allowed && req.Cost > 0 {
						at, units = append(at, res.At), append(units, req.Cost)
					}
				})
				for i := range at {
					sum := int64(0)
					for j := i; j < len(at) && at[j]-at[i] <= s.within(q.period); j++ {
						sum += units[j]
					}
					if sum > s.most(&p) {
						t.Errorf("%s: %d from %d on, of %v at %v", numbers(&p), sum, at[i], units, at)
						return
					}
				}
			})
		})
	}
}

// TestFixedWindowHoldsItsCount: no window holds more than the count.
func TestFixedWindowHoldsItsCount(t *testing.T) {
	law(t, 150, func(t *testing.T, c *chooser) {
		p, _, q := fixedWindow(c)
		m := newMachine(p)
		sums := map[int64]int64{}
		schedule(c, q, m, func(req algo.Request, res algo.Result) {
			if !res.Allowed || req.Cost == 0 {
				return
			}
			end := req.Now + res.ResetAfter
			if sums[end] += req.Cost; sums[end] > p.Capacity {
				t.Errorf("%s: the window until %d holds %d", numbers(&p), end, sums[end])
			}
		})
	})
}

// TestLogKeepsDistance: no two requests are less than the minimum interval apart.
func TestLogKeepsDistance(t *testing.T) {
	law(t, 150, func(t *testing.T, c *chooser) {
		p, _, q := slidingLog(c)
		m := newMachine(p)
		last := int64(-1) << 60
		schedule(c, q, m, func(req algo.Request, res algo.Result) {
			if res.Allowed && req.Cost > 0 {
				if res.At-last < p.Log.MinInterval {
					t.Errorf("%+v: %d after %d", p.Log, res.At, last)
				}
				last = res.At
			}
		})
	})
}

// TestOverdrawBound: over any interval that ends with an overdraw, at most the bound of the limit is admitted, and what the
// overdraw took beyond one unit. No request passes until its debt is paid.
func TestOverdrawBound(t *testing.T) {
	for name, s := range map[string]subject{"token bucket": bucket, "sliding window": slidingWindow, "sliding log": slidingLog} {
		t.Run(name, func(t *testing.T) {
			law(t, 150, func(t *testing.T, c *chooser) {
				p, _, q := s(c)
				q.debits = false
				m, now := newMachine(p), begin(c, q)
				bound := func(int64) *big.Rat { return rat(q.capacity, 1) } // of windows, within a period
				if p.Kind == algo.KindBucket {
					rate := rat(int64(p.Bucket.Num), int64(p.Bucket.Den))
					bound = func(w int64) *big.Rat { return new(big.Rat).Add(rat(q.capacity, 1), new(big.Rat).Mul(rate, rat(w, 1))) }
				}
				var at, units, extra []int64
				for range 60 {
					now += c.step(q.pace, 0)
					a := q.request(c, now)
					a.MaxWait = 0
					res := m.decide(a, true)
					if !res.Allowed || a.Cost == 0 {
						continue
					}
					at, units, extra = append(at, now), append(units, a.Cost), append(extra, 0)
					if last := len(at) - 1; a.Overdraw {
						extra[last] = a.Cost - 1
					}
				}
				for i := range at {
					sum := new(big.Rat)
					for j := i; j < len(at) && (p.Kind == algo.KindBucket || at[j]-at[i] < q.period); j++ {
						sum.Add(sum, rat(units[j], 1))
						if most := bound(at[j] - at[i]); new(big.Rat).Sub(sum, rat(extra[j], 1)).Cmp(most) > 0 {
							t.Errorf("%s: %s from %d to %d, of %v at %v, the last overdrawn by %d", numbers(&p), sum, at[i], at[j], units, at, extra[j])
							return
						}
					}
				}
			})
		})
	}
}

// TestConcurrencyBound: the units with leases never exceed their maximum, nor Max if the requests
// accept no queue.
func TestConcurrencyBound(t *testing.T) {
	law(t, 200, func(t *testing.T, c *chooser) {
		p, _, q := concurrency(c)
		m, now := newMachine(p), begin(c, q)
		type held struct{ until, units int64 }
		leases := map[uint64]held{}
		for range 80 {
			now += c.step(q.pace, 0)
			a := q.request(c, now)
			res := m.decide(a, true)
			for member, l := range leases {
				if l.until <= now {
					delete(leases, member)
				}
			}
			running := int64(0)
			if res.Allowed && a.Cost > 0 {
				l, ok := leases[a.Member]
				if !ok {
					l.units = a.Cost
					if a.MaxWait < 0 {
						running = a.Cost
					}
				}
				l.until = now + p.Conc.TTL
				leases[a.Member] = l
			}
			sum := int64(0)
			for _, l := range leases {
				sum += l.units
			}
			_, mine := leases[a.Member]
			if sum > p.Conc.Max+p.Conc.Queue || running > 0 && sum > p.Conc.Max {
				t.Errorf("%+v: %d units hold leases", p.Conc, sum)
				return
			}
			if c.oneIn(4) && mine {
				m.cancel(now, charge(a, algo.Result{Allowed: true}))
				if a.Cost > 0 {
					delete(leases, a.Member)
				}
			}
		}
	})
}
