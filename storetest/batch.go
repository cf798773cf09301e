package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// named returns a limit with a name of its own for each sample.
func named(c sample) *sluice.Limit { return limit(c.name, c.algorithm) }

// oneOfEach returns a request for one unit of each sample.
func oneOfEach(cs []sample, k sluice.Key) []sluice.Request {
	var rs []sluice.Request
	for _, c := range cs {
		rs = append(rs, sluice.Request{Limit: named(c), Key: k, Cost: 1})
	}
	return rs
}

// views returns the views of the keys of all requests.
func (s *subject) views(rs []sluice.Request) []view {
	s.Helper()
	var vs []view
	for _, r := range rs {
		vs = append(vs, s.view(r.Limit, r.Key))
	}
	return vs
}

// batches: a batch over all algorithms charges all or none, and its decisions are in the order of
// its requests.
func batches(s *subject) {
	for _, c := range samples {
		s.Run(c.name, func(t *testing.T) {
			s := s.suite.subject(t)
			rs := oneOfEach(samples, key)
			before := s.views(rs)
			for i, d := range s.batch(rs...) {
				s.allowed(d, "request %d of a batch", i)
				if d.Limit != rs[i].Limit.Capacity() {
					s.Fatalf("request %d of a batch has the decision of another: %+v", i, d)
				}
			}
			for i, r := range rs {
				if s.view(r.Limit, r.Key) == before[i] {
					s.Fatalf("a batch that was allowed has not charged %v", r.Limit)
				}
			}
			s.clock.Advance(10 * time.Second)
			s.take(named(c), key, capacity) // now this one denies
			before = s.views(rs)
			out := s.batch(rs...)
			for i, r := range rs {
				spent := samples[i].name == c.name
				if out[i].Allowed == spent {
					s.Errorf("request %d, %v, of a batch in which %s denies: %+v", i, r.Limit, c.name, out[i])
				}
				if spent && c.countsDenied {
					continue
				}
				s.unmoved(before[i], r.Limit, r.Key, "a batch that was denied")
				// A request that passes by itself gets the decision of a peek: nothing was charged.
				if out[i].Allowed {
					s.same(out[i], before[i][1], "request %d of a batch that was denied", i)
					s.uncharged(out[i], before[i][0], "request %d of a batch that was denied", i)
				}
			}
		})
	}
}

// uncharged fails the test unless a decision of a denied batch is about the state as it is: none is a peek of no
// units.
func (s *subject) uncharged(d, none sluice.Decision, format string, args ...any) {
	s.Helper()
	if d.Remaining != none.Remaining || d.ResetAfter != none.ResetAfter {
		s.Fatalf(format+" counts what was not charged:\n got %+v\nwant %+v", append(args, d, none)...)
	}
}

// batchDuplicates: requests for the same limit and key in one batch add up.
func batchDuplicates(s *subject) {
	s.each(only(notPaced), func(s *subject, c sample) {
		l := c.limit()
		r := sluice.Request{Limit: l, Key: key, Cost: 2}
		other := sluice.Request{Limit: limit("other", sluice.FixedWindow{Rate: sluice.PerHour(9)}), Key: key, Cost: 1}
		out := s.batch(r, other, r)
		for i, remaining := range []int64{3, 8, 1} {
			if !out[i].Allowed || out[i].Remaining != remaining {
				s.Fatalf("request %d: %+v, want %d to remain", i, out[i], remaining)
			}
		}
		s.remaining(l, key, 1, "two units twice")
		s.reset(l, key)
		before, beforeOther := s.view(l, key), s.view(other.Limit, key)
		out = s.batch(r, r, other, r)
		for i, allowed := range []bool{true, true, true, false} {
			if out[i].Allowed != allowed {
				s.Fatalf("request %d of two units three times: %+v", i, out[i])
			}
		}
		s.unmoved(beforeOther, other.Limit, key, "a batch that was denied")
		if !c.countsDenied {
			s.unmoved(before, l, key, "a batch that was denied")
		}
	})
}

// batchDenials: a denied batch changes no state, whatever is in it.
func batchDenials(s *subject) {
	s.each(only(notPaced), func(s *subject, c sample) {
		if c.countsDenied {
			return // batches checks what such a batch counts
		}
		l := c.limit()
		for used := range int64(capacity + 1) {
			s.reset(l, key)
			if used > 0 {
				s.take(l, key, used)
			}
			before := s.view(l, key)
			for _, costs := range [][]int64{{3, 3}, {1, 5}, {5, 1}, {2, 2, 2}, {0, 6}, {6, 0}, {1, 1, 1, 1, 1, 1}, {4, 0, 2}} {
				var rs []sluice.Request
				for _, cost := range costs {
					rs = append(rs, sluice.Request{Limit: l, Key: key, Cost: cost})
				}
				allowed := true
				for _, d := range s.batch(rs...) {
					allowed = allowed && d.Allowed
				}
				if allowed {
					s.Fatalf("costs %v pass, with %d of %d used", costs, used, capacity)
				}
				s.unmoved(before, l, key, "costs %v, with %d used", costs, used)
			}
		}
	})
}

// batchPeeks: a peek in a batch takes nothing and can deny the batch. It is decided as if the
// requests before it had taken their units.
func batchPeeks(s *subject) {
	s.each(only(notPaced), func(s *subject, c sample) {
		l, free := c.limit(), limit("free", sluice.FixedWindow{Rate: sluice.PerHour(9)})
		take := func(l *sluice.Limit, n int64) sluice.Request { return sluice.Request{Limit: l, Key: key, Cost: n} }
		look := func(l *sluice.Limit, n int64) sluice.Request {
			return sluice.Request{Limit: l, Key: key, Cost: n, Peek: true}
		}
		out := s.batch(look(l, 5), take(free, 1))
		if !out[0].Allowed || out[0].Remaining != 5 || !out[1].Allowed {
			s.Fatalf("a peek and a take: %+v", out)
		}
		s.remaining(l, key, 5, "a peek in a batch")
		out = s.batch(look(l, 5), take(l, 3), look(l, 2))
		if !out[0].Allowed || !out[1].Allowed || !out[2].Allowed || out[2].Remaining != 2 {
			s.Fatalf("peeks before and after a take: %+v", out)
		}
		s.remaining(l, key, 2, "peeks before and after a take of three")
		if c.countsDenied {
			return
		}
		before := s.view(free, key)
		out = s.batch(take(free, 1), look(l, 3))
		if !out[0].Allowed || out[1].Allowed {
			s.Fatalf("a take, and a peek that is denied: %+v", out)
		}
		s.unmoved(before, free, key, "a batch denied by a peek")
		out = s.batch(take(l, 1), take(free, 1), look(l, 2))
		if !out[0].Allowed || !out[1].Allowed || out[2].Allowed {
			s.Fatalf("a peek denied for what is taken before it: %+v", out)
		}
		s.unmoved(before, free, key, "a batch denied by a peek")
		s.remaining(l, key, 2, "a batch denied by a peek")
	})
}

// batchVersions: a batch may use a key under old and new numbers of a limit. All its requests are
// decided on one state.
func batchVersions(s *subject) {
	for name, alg := range resized {
		s.Run(name, func(t *testing.T) {
			s := s.suite.subject(t)
			small, large := limit("versions", alg(4)), limit("versions", alg(6))
			s.take(small, key, 4)
			for _, ls := range [][]*sluice.Limit{{small, small}, {large, large}, {small, large}, {large, small}} {
				before := []view{s.view(small, key), s.view(large, key)}
				out := s.batch(
					sluice.Request{Limit: ls[0], Key: key, Cost: 4, Peek: true},
					sluice.Request{Limit: ls[1], Key: key, Cost: 4, Peek: true},
				)
				if out[0].Allowed || out[1].Allowed {
					s.Fatalf("peeks of what is spent, under %v: %+v", ls, out)
				}
				out = s.batch(
					sluice.Request{Limit: ls[0], Key: key, Cost: 3},
					sluice.Request{Limit: ls[1], Key: key, Cost: 3},
				)
				if out[0].Allowed && out[1].Allowed {
					s.Fatalf("six units of what is spent, under %v: %+v", ls, out)
				}
				for i, l := range []*sluice.Limit{small, large} {
					s.unmoved(before[i], l, key, "batches that were denied under %v", ls)
				}
			}
			s.clock.Advance(time.Hour)
			out := s.batch(
				sluice.Request{Limit: small, Key: key, Cost: 1},
				sluice.Request{Limit: large, Key: key, Cost: 2},
				sluice.Request{Limit: small, Key: key, Cost: 1},
			)
			for i, d := range out {
				s.allowed(d, "request %d of four units under two versions", i)
			}
			s.denied(s.take(small, key, 1), sluice.ReasonLimited, "a fifth unit")
		})
	}
}

// batchErrors: a batch with an invalid request, or with a slice of another length for its
// decisions, changes nothing. A batch without requests succeeds.
func batchErrors(s *subject) {
	ctx := context.Background()
	l := samples[0].limit()
	good := sluice.Request{Limit: l, Key: key, Cost: 1}
	before := s.view(l, key)
	out := make([]sluice.Decision, 2)
	var problem *sluice.RequestError
	bad := good
	bad.Cost = -1
	for _, rs := range [][]sluice.Request{{good, bad}, {bad, good}, {good, {}}} {
		if err := s.store.DecideAll(ctx, rs, out); !errors.As(err, &problem) {
			s.Errorf("got %v, want a RequestError", err)
		}
	}
	if err := s.store.DecideAll(ctx, []sluice.Request{bad}, out[:1]); !errors.As(err, &problem) {
		s.Errorf("got %v, want a RequestError", err)
	}
	for n := range 4 {
		if err := s.store.DecideAll(ctx, []sluice.Request{good, good}, make([]sluice.Decision, n)); (err == nil) != (n == 2) {
			s.Errorf("two requests and room for %d decisions: %v", n, err)
		}
		s.reset(l, key)
	}
	s.unmoved(before, l, key, "batches that make no sense")
	if err := s.store.DecideAll(ctx, nil, nil); err != nil {
		s.Errorf("no requests: %v", err)
	}
}

// batchLarge: a batch may hold many requests, for different keys and for the same one.
func batchLarge(s *subject) {
	l := limit("large", sluice.TokenBucket{Rate: sluice.PerHour(1), Burst: 3})
	var rs []sluice.Request
	for round := range 3 {
		for i := range 100 {
			rs = append(rs, sluice.Request{Limit: l, Key: sluice.StringKey(fmt.Sprint((i * (round + 1)) % 101)), Cost: 1})
		}
	}
	taken := make(map[sluice.Key]int64)
	for i, d := range s.batch(rs...) {
		taken[rs[i].Key]++
		if !d.Allowed || d.Remaining != 3-taken[rs[i].Key] {
			s.Fatalf("request %d, the %dth for its key: %+v", i, taken[rs[i].Key], d)
		}
	}
	for k, n := range taken {
		s.remaining(l, k, 3-n, "after a batch of %d", len(rs))
	}
	// One too many: none is charged.
	for k := range taken {
		s.reset(l, k)
	}
	s.take(l, rs[299].Key, 1)
	out := s.batch(rs...)
	if out[299].Allowed {
		s.Errorf("the last request: %+v", out[299])
	}
	for k := range taken {
		if k != rs[299].Key {
			s.remaining(l, k, 3, "after a batch that was denied")
		}
	}
}

// batchRandom: a batch returns the decisions that another store makes about its requests one after
// the other. A denied batch leaves everything unchanged, and shows what is left as it is.
func batchRandom(s *subject) {
	twin := s.twin()
	cs := only(notCountingDenied)
	r := source(3)
	ks := []sluice.Key{sluice.StringKey("a"), sluice.StringKey("b"), sluice.NewKey("a", "b")}
	batches, passed := max(120, s.suite.random(400)), 0
	for i := range batches {
		s.clock.Advance(pause(r, 400*time.Millisecond))
		rs := randomBatch(r, cs, ks, s)
		var before []view
		for _, q := range rs {
			before = append(before, twin.view(q.Limit, q.Key))
		}
		out := s.batch(rs...)
		allowed := true
		for _, d := range out {
			allowed = allowed && d.Allowed
		}
		if !allowed {
			for j, q := range rs {
				s.unmoved(before[j], q.Limit, q.Key, "batch %d of %d, which was denied", i, len(rs))
				if out[j].Allowed {
					none := twin.decide(sluice.Request{Limit: q.Limit, Key: q.Key, Floor: q.Floor, Peek: true})
					s.uncharged(out[j], none, "batch %d, request %d of %d, %v, cost %d,", i, j, len(rs), q.Limit, q.Cost)
				}
			}
			continue
		}
		passed++
		for j, q := range rs {
			s.same(out[j], twin.decide(q), "batch %d, request %d of %d, %v, cost %d", i, j, len(rs), q.Limit, q.Cost)
			if q.Cost > 0 && !q.Peek && s.view(q.Limit, q.Key) == before[j] && q.Member == 0 {
				s.Fatalf("batch %d, request %d of %d, %v, cost %d: not charged", i, j, len(rs), q.Limit, q.Cost)
			}
		}
		for j, q := range rs {
			if got, want := s.view(q.Limit, q.Key), twin.view(q.Limit, q.Key); got != want {
				s.Fatalf("batch %d, request %d of %d, %v:\n got %+v\nwant %+v", i, j, len(rs), q.Limit, got, want)
			}
		}
	}
	if passed < batches/8 || passed > batches*7/8 {
		s.Errorf("%d of %d batches passed, want %d to %d, so that the test sees both", passed, batches, batches/8, batches*7/8)
	}
}

// randomBatch makes a batch of one to six requests.
func randomBatch(r *rand.Rand, cs []sample, ks []sluice.Key, s *subject) []sluice.Request {
	rs := make([]sluice.Request, 1+r.IntN(6))
	for i := range rs {
		rs[i] = s.complete(sluice.Request{
			Limit: named(cs[r.IntN(len(cs))]),
			Key:   ks[r.IntN(len(ks))],
			Cost:  r.Int64N(3),
			Floor: r.Int64N(2) * r.Int64N(2),
			Peek:  r.IntN(5) == 0,
		})
		if i > 0 && r.IntN(3) == 0 {
			rs[i].Limit, rs[i].Key = rs[r.IntN(i)].Limit, rs[r.IntN(i)].Key
			rs[i].Member = 0
			rs[i] = s.complete(rs[i])
		}
	}
	return rs
}
