package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
)

// release ends a lease and returns the store's error.
func (s *subject) release(c sluice.Charge, latency time.Duration) error {
	return s.store.Release(context.Background(), c, latency)
}

// leases: a lease is held until it is released or its TTL has ended. A second request with the
// same member renews it.
func leases(s *subject) {
	l := limit("leases", sluice.Concurrency{Max: 3, TTL: time.Second})
	one := sluice.Request{Limit: l, Key: key, Cost: 1, Member: 101}
	two := sluice.Request{Limit: l, Key: key, Cost: 2, Member: 102}
	first, second := s.charge(one), s.charge(two)
	s.denied(s.take(l, key, 1), sluice.ReasonLimited, "a lease beyond the last unit")
	if err := s.release(second, 0); err != nil {
		s.Errorf("releasing: %v", err)
	}
	s.remaining(l, key, 2, "a lease of two units, released")
	if err := s.release(second, 0); !errors.Is(err, sluice.ErrLeaseLost) {
		s.Errorf("releasing twice: got %v, want ErrLeaseLost", err)
	}
	s.remaining(l, key, 2, "a lease released twice")

	// Renewing prolongs the lease to a whole TTL, takes no more units, and succeeds even if all
	// units are taken.
	s.clock.Advance(600 * time.Millisecond)
	s.charge(two)
	before := s.view(l, key)
	peek := one
	peek.Peek = true
	if d := s.decide(peek); !d.Allowed || d.Remaining != 0 {
		s.Errorf("peek of a renewal: %+v", d)
	}
	s.unmoved(before, l, key, "the peek of a renewal")
	d := s.decide(one)
	s.allowed(d, "renewing")
	if d.Remaining != 0 || d.ResetAfter != time.Second {
		s.Errorf("renewing: %+v", d)
	}
	s.clock.Advance(time.Second - us)
	s.remaining(l, key, 0, "a microsecond before the renewed leases end")
	s.clock.Advance(us)
	s.remaining(l, key, 3, "when they end")
	if err := s.release(first, 0); !errors.Is(err, sluice.ErrLeaseLost) {
		s.Errorf("releasing a lease that has ended: got %v, want ErrLeaseLost", err)
	}

	// The release of a lost lease does not end another lease.
	s.charge(sluice.Request{Limit: l, Key: key, Cost: 3, Member: 103})
	if err := s.release(second, 0); !errors.Is(err, sluice.ErrLeaseLost) {
		s.Errorf("releasing a lease that has ended: got %v, want ErrLeaseLost", err)
	}
	s.remaining(l, key, 0, "a lost lease released while another is held")

	// A lost lease is taken again only if there is room.
	s.denied(s.decide(one), sluice.ReasonLimited, "renewing a lost lease with no room")
	s.clock.Advance(time.Second)
	s.allowed(s.decide(one), "renewing a lost lease with room")
	s.remaining(l, key, 2, "a lost lease taken again")

	// The same member of another key is another lease.
	other := sluice.StringKey("198.51.100.7")
	one.Key = other
	s.charge(one)
	s.remaining(l, key, 2, "a lease of another key")
	s.remaining(l, other, 2, "a lease of another key")

	// Through a Limiter.
	ctx := context.Background()
	lim := sluice.NewLimiter(s.store, limit("acquire", sluice.Concurrency{Max: 1, TTL: time.Second}))
	lease, err := lim.Acquire(ctx, key)
	if err != nil || !lease.OK() {
		s.Fatalf("acquiring: %+v, %v", lease, err)
	}
	if denied, err := lim.Acquire(ctx, key); err != nil || denied.OK() || denied.Release(ctx) != nil {
		s.Fatalf("acquiring what is taken: %+v, %v", denied, err)
	}
	s.clock.Advance(900 * time.Millisecond)
	if d, err := lease.Renew(ctx); err != nil || !d.Allowed {
		s.Errorf("renewing: %+v, %v", d, err)
	}
	s.clock.Advance(900 * time.Millisecond)
	if err := lease.Release(ctx); err != nil {
		s.Errorf("releasing: %v", err)
	}
	if err := lease.Release(ctx); !errors.Is(err, sluice.ErrEnded) {
		s.Errorf("releasing twice: got %v, want ErrEnded", err)
	}
	lease, err = lim.Acquire(ctx, key)
	if err != nil || !lease.OK() {
		s.Fatalf("acquiring what was released: %v", err)
	}
	s.clock.Advance(time.Second)
	if err := lease.Release(ctx); !errors.Is(err, sluice.ErrLeaseLost) {
		s.Errorf("releasing a lease that has ended: got %v, want ErrLeaseLost", err)
	}
}

// leaseQueue: requests beyond Max wait their turn and get an estimated delay. They move up when
// other leases are released.
func leaseQueue(s *subject) {
	l := limit("queue", sluice.Concurrency{Max: 2, Queue: 3, TTL: time.Minute, Latency: 100 * time.Millisecond})
	rs := make([]sluice.Request, 5)
	charges := make([]sluice.Charge, 5)
	for i, delay := range []time.Duration{0, 0, 100 * ms, 100 * ms, 200 * ms} {
		rs[i] = sluice.Request{Limit: l, Key: key, Cost: 1, Member: uint64(i + 1)}
		d := s.decide(rs[i])
		if !d.Allowed || d.Delay != delay {
			s.Fatalf("lease %d: %+v, want a delay of %v", i+1, d, delay)
		}
		charges[i] = rs[i].Charge(&d)
	}
	s.denied(s.take(l, key, 1), sluice.ReasonLimited, "a lease beyond the queue")
	if err := s.release(charges[0], 100*time.Millisecond); err != nil {
		s.Fatal(err)
	}
	for i, delay := range []time.Duration{0, 0, 100 * ms, 100 * ms} {
		if d := s.decide(rs[i+1]); !d.Allowed || d.Delay != delay {
			s.Errorf("lease %d, with the first released: %+v, want a delay of %v", i+2, d, delay)
		}
	}
	// A request that does not want to wait is not put into the queue.
	r := sluice.Request{Limit: l, Key: key, Cost: 1, MaxWait: sluice.NoWait}
	s.denied(s.decide(r), sluice.ReasonLimited, "a lease without waiting, with two waiting")
	r.MaxWait = 150 * time.Millisecond
	s.denied(s.decide(r), sluice.ReasonLimited, "a lease within 150ms, with an estimate of 200ms")
	r.MaxWait = 200 * time.Millisecond
	s.allowed(s.decide(r), "a lease within 200ms, with an estimate of 200ms")
}

// leaseLatency: the estimate moves half way to the latency that a release reports. It is forgotten
// after a TTL.
func leaseLatency(s *subject) {
	l := limit("latency", sluice.Concurrency{Max: 1, Queue: 1, TTL: time.Second, Latency: 100 * time.Millisecond})
	estimate := func() time.Duration {
		s.Helper()
		charge := s.charge(sluice.Request{Limit: l, Key: key, Cost: 1})
		d := s.peek(l, key, 1)
		s.cancel(charge)
		return d.Delay
	}
	if d := estimate(); d != 100*time.Millisecond {
		s.Errorf("the estimate is %v, want 100ms", d)
	}
	if err := s.release(s.charge(sluice.Request{Limit: l, Key: key, Cost: 1}), 500*time.Millisecond); err != nil {
		s.Fatal(err)
	}
	if d := estimate(); d != 300*time.Millisecond {
		s.Errorf("the estimate is %v after a release that reports 500ms, want 300ms", d)
	}
	s.clock.Advance(time.Second)
	if d := estimate(); d != 100*time.Millisecond {
		s.Errorf("the estimate is %v a time to live later, want 100ms", d)
	}
}

// leaseNever: a request never passes if even an empty key could not serve it within its wait.
func leaseNever(s *subject) {
	l := limit("never", sluice.Concurrency{Max: 1, Queue: 4, TTL: time.Second, Latency: 10 * time.Second})
	d := s.decide(sluice.Request{Limit: l, Key: key, Cost: 3, MaxWait: 5 * time.Second})
	s.denied(d, sluice.ReasonNever, "three units, an estimate of 20s, within 5s")
	if d.RetryAfter != 0 {
		s.Errorf("what never passes may come back: %+v", d)
	}
	s.denied(s.decide(sluice.Request{Limit: l, Key: key, Cost: 2, MaxWait: sluice.NoWait}), sluice.ReasonNever, "two units of one, without waiting")
	s.allowed(s.decide(sluice.Request{Limit: l, Key: key, Cost: 3, MaxWait: 20 * time.Second}), "three units within 20s")
}
