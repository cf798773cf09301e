package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// holding lists the clauses for stores that have holds.
var holding = []clause{
	{"HoldEnds", holdEnds},
	{"HoldSettled", holdSettled},
	{"HoldLate", holdLate},
	{"HoldBatch", holdBatch},
	{"HoldReset", holdReset},
	{"HoldRefused", holdRefused},
	{"HoldRandom", holdRandom},
	{"HoldConcurrent", holdConcurrent},
}

// hold returns a request for n units with a hold.
func hold(l *sluice.Limit, n int64, d time.Duration) sluice.Request {
	return sluice.Request{Limit: l, Key: key, Cost: n, Hold: d}
}

// heldFor is how long the holds of most tests last: less than units take to come back.
const heldFor = 20 * ms

// free returns what is left, after what is due was given back.
func (s *subject) free(l *sluice.Limit) int64 {
	s.Helper()
	r := hold(l, 0, heldFor)
	r.Peek = true
	return s.decide(r).Remaining
}

// holdEnds: what nobody settles is charged until the hold ends, and then as if it had never been charged.
func holdEnds(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l := c.limit()
		s.clock.Advance(5 * ms) // not at the border of a window
		s.charge(hold(l, 3, heldFor))
		s.charge(hold(l, 1, heldFor+10*ms))
		s.clock.Advance(heldFor - us)
		if n := s.free(l); n != 1 {
			s.Errorf("%d are left while four of five are held", n)
		}
		s.clock.Advance(us)
		if n := s.free(l); n != 4 {
			s.Errorf("%d are left after the hold of three, want 4", n)
		}
		s.allowed(s.decide(hold(l, 4, heldFor)), "what came back")
		s.clock.Advance(heldFor)
		if n := s.free(l); n != capacity {
			s.Errorf("%d are left after all holds", n)
		}
	})
}

// holdSettled: a charge that is settled in time is like any other, and its hold gives nothing back. A hold is not
// cancelled.
func holdSettled(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l, other := c.limit(), limit("plain", c.algorithm)
		for _, actual := range []int64{0, 1, 3, 8} {
			s.reset(l, key)
			s.reset(other, key)
			held, plain := s.charge(hold(l, 3, heldFor)), s.charge(sluice.Request{Limit: other, Key: key, Cost: 3})
			if err := s.store.Cancel(context.Background(), held); !errors.Is(err, sluice.ErrActed) {
				s.Errorf("Cancel of a hold: %v", err)
			}
			s.settle(held, actual)
			s.settle(plain, actual)
			for range 4 {
				s.free(l) // gives back what is due: nothing
				s.unmoved(s.view(other, key), l, key, "a hold of three that was settled at %d", actual)
				s.clock.Advance(333 * ms)
			}
		}
	})
}

// holdLate: a settlement after the end of the hold debits the actual cost, whether the units came back already or not.
func holdLate(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l, other := c.limit(), limit("debited", c.algorithm)
		for _, looked := range []bool{false, true} {
			for _, actual := range []int64{0, 2, 9} {
				s.reset(l, key)
				s.reset(other, key)
				held, plain := s.charge(hold(l, 3, heldFor)), s.charge(sluice.Request{Limit: other, Key: key, Cost: 3})
				s.clock.Advance(heldFor)
				s.settle(plain, 0)
				if looked {
					s.free(l)
				}
				s.settle(held, actual)
				s.decide(debit(other, actual))
				s.unmoved(s.view(other, key), l, key, "a late settlement at %d, looked %t", actual, looked)
				s.clock.Advance(3 * time.Second)
			}
		}
	})
}

// holdBatch: a batch holds all its charges or none. Shadows are held too, and an overdraw holds its whole cost.
func holdBatch(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l, day := c.limit(), limit("day", sluice.FixedWindow{Rate: sluice.PerDay(9)})
		spent := limit("spent", sluice.TokenBucket{Rate: sluice.PerHour(1)})
		s.take(spent, key, 1)
		shadow, over := hold(day, 2, heldFor), hold(l, 40, heldFor)
		shadow.Shadow, over.Overdraw = true, true
		s.batch(hold(l, 3, heldFor), hold(day, 3, heldFor), sluice.Request{Limit: spent, Key: key, Cost: 1})
		if n, m := s.free(l), s.free(day); n != capacity || m != 9 {
			s.Errorf("%d and %d are left after a batch that was denied", n, m)
		}
		for _, d := range s.batch(hold(l, 3, heldFor), hold(day, 3, heldFor), shadow) {
			s.allowed(d, "three of each")
		}
		s.clock.Advance(heldFor - us)
		if n, m := s.free(l), s.free(day); n != 2 || m != 4 {
			s.Errorf("%d and %d are left", n, m)
		}
		out := s.batch(over, hold(day, 4, heldFor))
		s.allowed(out[0], "an overdraw of forty")
		s.clock.Advance(us)
		s.denied(s.decide(hold(l, 0, heldFor)), sluice.ReasonLimited, "three units came back, and forty are held")
		s.clock.Advance(heldFor)
		if n, m := s.free(l), s.free(day); n != capacity || m != 9 {
			s.Errorf("%d and %d are left after all holds", n, m)
		}
	})
}

// holdReset: a key that was reset has no holds, so that they give nothing back later.
func holdReset(s *subject) {
	s.each(only(indebted), func(s *subject, c sample) {
		l := c.limit()
		s.clock.Advance(5 * ms)
		held := s.charge(hold(l, 3, heldFor))
		s.reset(l, key)
		s.take(l, key, 4)
		s.clock.Advance(heldFor)
		if n := s.free(l); n != 1 {
			s.Errorf("%d are left, want 1", n)
		}
		s.settle(held, 1) // a debit
		if n := s.free(l); n != 0 {
			s.Errorf("%d are left after a late settlement", n)
		}
	})
}

// holdRefused: requests that cannot have a hold are errors, and change nothing.
func holdRefused(s *subject) {
	bucket := limit("bucket", sluice.TokenBucket{Rate: sluice.PerHour(5)})
	waits, debits := hold(bucket, 1, time.Second), hold(bucket, 1, time.Second)
	waits.MaxWait, debits.Debit = time.Second, true
	lease := hold(limit("leases", sluice.Concurrency{Max: 1}), 1, time.Second)
	for name, r := range map[string]sluice.Request{
		"a wait": waits, "a debit": debits, "a lease": s.complete(lease), "no time": hold(bucket, 1, -1), "a nanosecond": hold(bucket, 1, 1),
		"a week": hold(bucket, 1, 7*24*time.Hour), "a queue": hold(limit("queue", sluice.LeakyBucket{Rate: sluice.PerHour(5)}), 1, time.Second),
	} {
		var problem *sluice.RequestError
		if _, err := s.store.Decide(context.Background(), r); !errors.As(err, &problem) {
			s.Errorf("%s: want a RequestError, got %v", name, err)
		}
	}
	s.remaining(bucket, key, 5, "holds that were refused")
}

// holdRandom: random holds are equal to plain charges of a twin, which are settled at 0 when the holds end.
func holdRandom(s *subject) {
	exact := func(c sample) bool { return indebted(c) || c.name == "sliding_log" }
	s.each(only(exact), func(s *subject, c sample) {
		rnd, twin, l := source(7), s.twin(), c.limit()
		type open struct {
			held, plain sluice.Charge
			ends        int64
			due         bool
		}
		var all []*open
		for i := range s.suite.random(400) {
			s.clock.Advance(pause(rnd, 150*ms))
			now := s.clock.Now()
			for _, o := range all {
				if o.due = o.due || o.ends <= now; o.due && o.plain.Limit != nil {
					twin.settle(o.plain, 0)
					o.plain.Limit = nil // it has come back
				}
			}
			if len(all) > 0 && rnd.IntN(3) == 0 {
				j := rnd.IntN(len(all))
				o, actual := all[j], rnd.Int64N(7)
				all = append(all[:j], all[j+1:]...)
				s.settle(o.held, actual)
				if o.due {
					twin.decide(debit(l, actual))
				} else {
					twin.settle(o.plain, actual)
				}
			}
			r := randomHold(rnd, l)
			plain := r
			plain.Hold = 0
			got, want := s.decide(r), twin.decide(plain)
			s.same(got, want, "step %d, %+v", i, r)
			if got.Allowed && !r.Peek && r.Cost > 0 {
				all = append(all, &open{held: r.Charge(&got), plain: plain.Charge(&want), ends: now + r.Hold.Microseconds()})
			}
		}
	})
}

// holdConcurrent: of concurrent charges with holds, what was settled is used in the end, and nothing else.
func holdConcurrent(s *subject) {
	const units = 1 << 20
	l := limit("holds", sluice.FixedWindow{Rate: sluice.PerDay(units)})
	var settled, failed atomic.Int64
	s.parallel(goroutines, func(g int) {
		for i := range max(s.suite.attempts/100, 10) {
			r := hold(l, int64(1+i%3), heldFor)
			d, err := s.store.Decide(context.Background(), r)
			if err == nil && (g+i)%3 == 0 {
				err = s.store.Settle(context.Background(), r.Charge(&d), 2)
				settled.Add(2)
			}
			if err != nil || !d.Allowed {
				failed.Add(1)
			}
		}
	})
	s.clock.Advance(heldFor)
	left := s.free(l)
	for range goroutines { // a store may give back a part with each request
		left = s.free(l)
	}
	if want := units - settled.Load(); left != want || failed.Load() > 0 {
		s.Errorf("%d are left and %d calls failed, want %d and 0", left, failed.Load(), want)
	}
}

func randomHold(rnd *rand.Rand, l *sluice.Limit) sluice.Request {
	r := hold(l, rnd.Int64N(5), time.Duration(1+rnd.IntN(400))*ms)
	r.Peek, r.Overdraw = rnd.IntN(4) == 0, rnd.IntN(4) == 0
	if r.Overdraw {
		r.Cost *= 3
	}
	return r
}
