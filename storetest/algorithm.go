package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// The following tests use limits of one name and different algorithms. This happens when a rule's
// algorithm changes: for a while, old and new programs use the limit in turn. Each algorithm
// counts separately.

// eachPair runs a test as a subtest for each sample, with all samples of other algorithms.
func (s *subject) eachPair(samples []sample, test func(s *subject, c, other sample)) {
	s.Helper()
	for _, c := range samples {
		s.Run(c.name, func(t *testing.T) {
			for _, other := range samples {
				if c.limit().Params().Kind != other.limit().Params().Kind {
					test(s.suite.subject(t), c, other)
				}
			}
		})
	}
}

// algorithms: under a shared name, each algorithm decides as under a name of its own, whatever the
// other algorithm counts.
func algorithms(s *subject) {
	s.eachPair(samples, func(s *subject, c, other sample) {
		w := &algorithmWalk{subject: s, rnd: source(1)}
		for i, c := range []sample{c, other} {
			w.shared[i], w.own[i] = limit("shared", c.algorithm), limit("own "+c.name, c.algorithm)
		}
		for range max(6, s.suite.random(24)) { // for each of some 200 pairs
			w.step()
		}
	})
}

// algorithmWalk makes the same requests under a shared name and under separate names.
type algorithmWalk struct {
	*subject
	rnd         *rand.Rand
	shared, own [2]*sluice.Limit
	charges     [][2]sluice.Charge // under the shared name and its own
}

func (w *algorithmWalk) step() {
	w.Helper()
	switch i := w.rnd.IntN(2); w.rnd.IntN(10) {
	case 0:
		w.clock.Advance(pause(w.rnd, 500*time.Millisecond))
	case 1, 2:
		w.batch()
	case 3:
		w.end()
	case 4:
		if w.rnd.IntN(3) == 0 {
			w.reset(w.shared[i], key)
			w.reset(w.own[i], key)
		}
	default:
		r := w.request(w.shared[i])
		theirs := r
		theirs.Limit = w.own[i]
		got, want := w.decide(r), w.decide(theirs)
		w.same(got, want, "%d units of %v, and under a name of its own", r.Cost, r.Limit)
		w.took(&r, &theirs, &got, &want)
	}
}

func (w *algorithmWalk) request(l *sluice.Limit) sluice.Request {
	r := sluice.Request{Limit: l, Key: key, Cost: w.rnd.Int64N(4), Peek: w.rnd.IntN(5) == 0}
	if !r.Peek {
		w.member.Add(1)
		r.Member = 1<<33 + w.member.Load()
	}
	return r
}

func (w *algorithmWalk) batch() {
	w.Helper()
	var rs, theirs []sluice.Request
	for range 1 + w.rnd.IntN(3) {
		i := w.rnd.IntN(2)
		r := w.request(w.shared[i])
		r.Shadow = w.rnd.IntN(5) == 0
		rs = append(rs, r)
		r.Limit = w.own[i]
		theirs = append(theirs, r)
	}
	got, want := w.subject.batch(rs...), w.subject.batch(theirs...)
	passed := true
	for i := range rs {
		w.same(got[i], want[i], "request %d of %d, %d units of %v, and under a name of its own", i, len(rs), rs[i].Cost, rs[i].Limit)
		passed = passed && (got[i].Allowed || rs[i].Shadow)
	}
	for i := range rs {
		if passed || rs[i].Shadow {
			w.took(&rs[i], &theirs[i], &got[i], &want[i])
		}
	}
}

// took keeps a charge, to end it later.
func (w *algorithmWalk) took(r, theirs *sluice.Request, got, want *sluice.Decision) {
	if got.Allowed && !r.Peek && r.Cost > 0 {
		w.charges = append(w.charges, [2]sluice.Charge{r.Charge(got), theirs.Charge(want)})
	}
}

// end cancels or settles a charge.
func (w *algorithmWalk) end() {
	w.Helper()
	if len(w.charges) == 0 {
		return
	}
	i := w.rnd.IntN(len(w.charges))
	ended, actual := w.charges[i], w.rnd.Int64N(5)
	w.charges = append(w.charges[:i], w.charges[i+1:]...)
	if !ended[0].Limit.IsConcurrency() && actual < 4 {
		w.settle(ended[0], actual)
		w.settle(ended[1], actual)
		return
	}
	got, want := w.store.Cancel(context.Background(), ended[0]), w.store.Cancel(context.Background(), ended[1])
	if acted := errors.Is(got, sluice.ErrActed); acted != errors.Is(want, sluice.ErrActed) || !acted && errors.Join(got, want) != nil {
		w.Fatalf("Cancel of a charge of %v: %v, and under a name of its own: %v", ended[0].Limit, got, want)
	}
}

// algorithmsInTurn: a key that is used in turn under two algorithms gets the units of each
// algorithm, and no more. When it returns to the first algorithm, its used units still count until
// they expire.
func algorithmsInTurn(s *subject) {
	s.eachPair(only(notPaced), func(s *subject, c, other sample) {
		ls := [2]*sluice.Limit{c.limit(), other.limit()}
		var admitted [2]int64
		for range 3 * capacity {
			for i, l := range ls {
				if s.take(l, key, 1).Allowed {
					admitted[i]++
				}
			}
		}
		if admitted != [2]int64{capacity, capacity} {
			s.Fatalf("%v and %v in turn admit %d, want %d each", ls[0], ls[1], admitted, capacity)
		}
		s.remaining(ls[0], key, 0, "%v, gone back to from %v", ls[0], ls[1])
		s.clock.Advance(time.Minute)
		s.allowed(s.take(ls[0], key, capacity), "%v, gone back to when all is forgotten", ls[0])
		s.remaining(ls[1], key, capacity, "%v, when all is forgotten", ls[1])
	})
}

// algorithmsEnd: the end of a charge changes only the state that was charged. A reset forgets only
// the state of its own limit.
func algorithmsEnd(s *subject) {
	s.eachPair(only(notPaced), func(s *subject, c, other sample) {
		l, beside := c.limit(), other.limit()
		charge := s.charge(sluice.Request{Limit: l, Key: key, Cost: 3})
		s.take(beside, key, 2)
		before := s.view(beside, key)
		s.cancel(charge)
		s.unmoved(before, beside, key, "a charge of %v was canceled", l)
		if !c.lease {
			s.settle(s.charge(sluice.Request{Limit: l, Key: key, Cost: 2}), 1)
			s.unmoved(before, beside, key, "a charge of %v was settled", l)
		}
		s.take(l, key, 1)
		kept := s.view(l, key)
		s.reset(beside, key)
		s.unmoved(kept, l, key, "%v was reset", beside)
		s.remaining(beside, key, capacity, "%v, after its reset", beside)
	})
}

// algorithmsBatch: a batch may use two algorithms: both are charged, or none.
func algorithmsBatch(s *subject) {
	s.eachPair(only(notPaced), func(s *subject, c, other sample) {
		ls := [2]*sluice.Limit{c.limit(), other.limit()}
		decide := func(costs ...int64) (out []sluice.Decision) {
			s.Helper()
			var rs []sluice.Request
			for i, cost := range costs {
				rs = append(rs, sluice.Request{Limit: ls[i%2], Key: key, Cost: cost})
			}
			return s.batch(rs...)
		}
		for i, d := range decide(3, 2) {
			s.allowed(d, "request %d of a batch under %v and %v", i, ls[0], ls[1])
			s.remaining(ls[i], key, []int64{2, 3}[i], "after a batch under both")
		}
		if c.countsDenied || other.countsDenied {
			return
		}
		before := [2]view{s.view(ls[0], key), s.view(ls[1], key)}
		for i, out := range [][]sluice.Decision{decide(3, 1), decide(1, 4), decide(2, 2, 0, 2)} {
			if passed := [2]bool{out[0].Allowed, out[1].Allowed}; passed != [2]bool{i > 0, i != 1} {
				s.Fatalf("batch %d under %v and %v: %+v", i, ls[0], ls[1], out)
			}
			for j, l := range ls {
				s.unmoved(before[j], l, key, "batch %d, which was denied", i)
			}
		}
		for i, d := range decide(1, 2, 1, 1) {
			s.allowed(d, "request %d for the rest of both", i)
		}
		for _, l := range ls {
			s.remaining(l, key, 0, "after a batch for the rest of both")
		}
	})
}

// algorithmsBans: a ban belongs to the name and holds under every algorithm. Denials under two
// algorithms add up. Lifting the ban, or resetting the key, under one algorithm lifts the ban
// under all.
func algorithmsBans(s *subject) {
	bucket := limit("bans", sluice.TokenBucket{Rate: sluice.PerHour(1)})
	window := limit("bans", sluice.FixedWindow{Rate: sluice.PerHour(1)})
	log := limit("bans", sluice.SlidingLog{Rate: sluice.PerHour(1)})
	terms := &sluice.Ban{After: 3, For: time.Minute}
	request := func(l *sluice.Limit) sluice.Request {
		return sluice.Request{Limit: l, Key: key, Cost: 1, Ban: terms}
	}
	all := []*sluice.Limit{bucket, window, log}
	banned := func(when string) {
		s.Helper()
		for _, l := range all {
			d := s.decide(request(l))
			s.denied(d, sluice.ReasonBanned, "%v, %s", l, when)
			if d.RetryAfter < time.Minute {
				s.Errorf("%v, %s: banned for %v, want a minute", l, when, d.RetryAfter)
			}
		}
	}
	free := func(when string) {
		s.Helper()
		for _, l := range all {
			r := request(l)
			r.Peek = true
			if d := s.decide(r); d.Reason == sluice.ReasonBanned {
				s.Errorf("%v, %s: %+v", l, when, d)
			}
		}
	}
	for _, l := range all {
		s.take(l, key, 1)
	}
	for _, l := range all {
		s.denied(s.decide(request(l)), sluice.ReasonLimited, "a denial under each")
	}
	banned("after a denial under each")
	s.reset(window, key)
	free("after a reset of the window")
	s.remaining(window, key, 1, "after its reset")
	s.remaining(bucket, key, 0, "after a reset of the window")
	s.remaining(log, key, 0, "after a reset of the window")

	// The same in a batch.
	s.take(window, key, 1)
	out := s.batch(request(bucket), request(window), request(log))
	for i, d := range out {
		s.denied(d, sluice.ReasonLimited, "request %d of a batch", i)
	}
	banned("after a batch of three denials")
	for i, d := range s.batch(request(log), request(bucket)) {
		s.denied(d, sluice.ReasonBanned, "request %d of a batch while banned", i)
	}

	b, ok := s.store.(sluice.Banner)
	if !ok {
		return
	}
	if bans := s.listed(b, 0); len(bans) != 1 || bans[0].Limit != "bans" || bans[0].Key != key {
		s.Errorf("the ban is listed as %+v", bans)
	}
	if found, err := b.LiftBan(context.Background(), bucket, key); err != nil || !found {
		s.Errorf("lifting it: %t, %v", found, err)
	}
	free("when it was lifted")
	if err := b.BanKey(context.Background(), log, key, time.Minute); err != nil {
		s.Fatalf("BanKey: %v", err)
	}
	banned("banned by hand")
}

// minInterval: two requests are at least the interval apart, however many units are left.
func minInterval(s *subject) {
	l := limit("interval", sluice.SlidingLog{Rate: sluice.PerSecond(5), MinInterval: 100 * time.Millisecond})
	s.allowed(s.take(l, key, 2), "the first request")
	s.clock.Advance(60 * time.Millisecond)
	want := soon(3, 40*ms, 940*ms)
	want.Limit = 5
	s.same(s.take(l, key, 1), want, "60ms later")
	s.clock.Advance(40*time.Millisecond - us)
	want = soon(3, us, 900*ms+us)
	want.Limit = 5
	s.same(s.take(l, key, 1), want, "a microsecond before the interval has passed")
	s.clock.Advance(us)
	s.allowed(s.take(l, key, 3), "when it has passed")
	// Both the interval and the units must suffice: RetryAfter is the later moment.
	if d := s.take(l, key, 1); d.Reason != sluice.ReasonLimited || d.RetryAfter != 900*time.Millisecond {
		s.Errorf("with nothing left: %+v", d)
	}
	// A batch cannot take twice: the second request would come too soon.
	s.clock.Advance(5 * time.Second)
	before := s.view(l, key)
	r := sluice.Request{Limit: l, Key: key, Cost: 1}
	if out := s.batch(r, r); !out[0].Allowed || out[1].Reason != sluice.ReasonTooSoon {
		s.Errorf("twice in a batch: %+v", out)
	}
	s.unmoved(before, l, key, "a batch that was denied")
}
