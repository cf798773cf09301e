package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// subject is a store under test, its clock, and the test.
type subject struct {
	*testing.T
	suite  *suite
	store  sluice.Store
	clock  *Clock
	member atomic.Uint64
}

func (s *suite) subject(t *testing.T) *subject {
	t.Helper()
	clock := NewClock()
	return &subject{T: t, suite: s, clock: clock, store: s.factory(t, clock)}
}

// each runs a test as a subtest for each sample, with a fresh store.
func (s *subject) each(samples []sample, test func(s *subject, c sample)) {
	s.Helper()
	for _, c := range samples {
		s.Run(c.name, func(t *testing.T) { test(s.suite.subject(t), c) })
	}
}

// twin returns another fresh store on the same clock.
func (s *subject) twin() *subject {
	s.Helper()
	return &subject{T: s.T, suite: s.suite, clock: s.clock, store: s.suite.factory(s.T, s.clock)}
}

// complete gives each request for a lease a member of its own.
func (s *subject) complete(r sluice.Request) sluice.Request {
	if r.Limit.IsConcurrency() && r.Member == 0 && !r.Peek {
		r.Member = 1<<32 + s.member.Add(1)
	}
	return r
}

// decide decides a request.
func (s *subject) decide(r sluice.Request) sluice.Decision {
	s.Helper()
	d, err := s.store.Decide(context.Background(), s.complete(r))
	if err != nil {
		s.Fatalf("Decide(%v, cost %d): %v", r.Limit, r.Cost, err)
	}
	return d
}

// take requests n units.
func (s *subject) take(l *sluice.Limit, k sluice.Key, n int64) sluice.Decision {
	s.Helper()
	return s.decide(sluice.Request{Limit: l, Key: k, Cost: n})
}

// peek decides about n units and takes none.
func (s *subject) peek(l *sluice.Limit, k sluice.Key, n int64) sluice.Decision {
	s.Helper()
	return s.decide(sluice.Request{Limit: l, Key: k, Cost: n, Peek: true})
}

// charge takes units that must be available and returns the charge.
func (s *subject) charge(r sluice.Request) sluice.Charge {
	s.Helper()
	r = s.complete(r)
	d := s.decide(r)
	s.allowed(d, "%v, cost %d", r.Limit, r.Cost)
	return r.Charge(&d)
}

// batch decides requests as one.
func (s *subject) batch(rs ...sluice.Request) []sluice.Decision {
	s.Helper()
	rs = append([]sluice.Request(nil), rs...)
	for i := range rs {
		rs[i] = s.complete(rs[i])
	}
	out := make([]sluice.Decision, len(rs))
	if err := s.store.DecideAll(context.Background(), rs, out); err != nil {
		s.Fatalf("DecideAll of %d requests: %v", len(rs), err)
	}
	return out
}

func (s *subject) cancel(c sluice.Charge) {
	s.Helper()
	if err := s.store.Cancel(context.Background(), c); err != nil {
		s.Fatalf("Cancel: %v", err)
	}
}

// cancelActed cancels a charge whose moment has passed.
func (s *subject) cancelActed(c sluice.Charge) {
	s.Helper()
	if err := s.store.Cancel(context.Background(), c); !errors.Is(err, sluice.ErrActed) {
		s.Fatalf("Cancel of a charge that has acted: %v, want ErrActed", err)
	}
}

func (s *subject) settle(c sluice.Charge, actual int64) {
	s.Helper()
	if err := s.store.Settle(context.Background(), c, actual); err != nil {
		s.Fatalf("Settle: %v", err)
	}
}

func (s *subject) reset(l *sluice.Limit, k sluice.Key) {
	s.Helper()
	if err := s.store.Reset(context.Background(), l, k); err != nil {
		s.Fatalf("Reset: %v", err)
	}
}

// allowed fails the test unless d is allowed.
func (s *subject) allowed(d sluice.Decision, format string, args ...any) {
	s.Helper()
	if !d.Allowed {
		s.Fatalf(format+": denied: %+v", append(args, d)...)
	}
}

// denied fails the test unless d is denied for reason.
func (s *subject) denied(d sluice.Decision, reason sluice.Reason, format string, args ...any) {
	s.Helper()
	if d.Allowed || d.Reason != reason {
		s.Fatalf(format+": want a denial, %v: got %+v", append(args, reason, d)...)
	}
}

// remaining fails the test unless a peek reports that exactly n units can be taken.
func (s *subject) remaining(l *sluice.Limit, k sluice.Key, n int64, format string, args ...any) {
	s.Helper()
	if d := s.peek(l, k, 0); d.Remaining != n {
		s.Fatalf(format+": %d remain, want %d: %+v", append(args, d.Remaining, n, d)...)
	}
}

// same fails the test unless two decisions are equal for the caller.
func (s *subject) same(got, want sluice.Decision, format string, args ...any) {
	s.Helper()
	got.Receipt, want.Receipt = sluice.Receipt{}, sluice.Receipt{}
	if got != want {
		s.Fatalf(format+":\n got %+v\nwant %+v", append(args, got, want)...)
	}
}

// view is what peeks show of a key. Two views are equal if callers cannot distinguish the states.
type view [3]sluice.Decision

// view peeks at a key in several ways.
func (s *subject) view(l *sluice.Limit, k sluice.Key) view {
	s.Helper()
	v := view{
		s.peek(l, k, 0),
		s.peek(l, k, 1),
		s.peek(l, k, l.Capacity()),
	}
	for i := range v {
		v[i].Receipt = sluice.Receipt{}
	}
	return v
}

// unmoved fails the test unless the view of a key is unchanged.
func (s *subject) unmoved(before view, l *sluice.Limit, k sluice.Key, format string, args ...any) {
	s.Helper()
	if after := s.view(l, k); after != before {
		s.Fatalf(format+": the state of %v moved:\nbefore %+v\n after %+v", append(args, l, before, after)...)
	}
}

// source returns random numbers, the same in every run.
func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// pause returns a random time: zero, some microseconds, or up to most.
func pause(r *rand.Rand, most time.Duration) time.Duration {
	switch r.IntN(4) {
	case 0:
		return 0
	case 1:
		return time.Duration(1+r.IntN(50)) * time.Microsecond
	default:
		return time.Duration(r.Int64N(int64(most/time.Microsecond)+1)) * time.Microsecond
	}
}

// limit makes a limit from valid numbers.
func limit(name string, a sluice.Algorithm) *sluice.Limit { return sluice.MustLimit(name, a) }

// key is the key of most tests.
var key = sluice.StringKey("192.0.2.1")
