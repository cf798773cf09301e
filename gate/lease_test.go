package gate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/gate"
	"github.com/sluicehq/sluice/policy"
)

func flight(a sluice.Concurrency) policy.Rule {
	return policy.Rule{Name: "flight", Limits: limit(a)}
}

// A lease lasts as long as its request, and ends afterwards.
func TestLeasesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{}, flight(sluice.Concurrency{Max: 1, TTL: 10 * time.Second}))
		first := e.enter(t.Context(), "a")
		<-time.After(time.Hour)
		if n := e.enter(t.Context(), "a"); !errors.Is(n.err, gate.ErrDenied) {
			t.Errorf("after an hour: %v", n.err)
		}
		first.admission.Leave(t.Context(), status(200))
		first.admission.Leave(t.Context(), status(200))
		if n := e.remaining("flight", "a"); n != 1 || len(e.reported()) > 0 {
			t.Errorf("%d are free; reported %v", n, e.reported())
		}
	})
}

// The leases of a dead process last for their TTL.
func TestLeasesOfTheDeadEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		dead := newEdge(t, store, gate.Options{}, flight(sluice.Concurrency{Max: 1, TTL: 10 * time.Second}))
		dead.decide(t.Context(), "a") // killed before its request enters the gate
		e := newEdge(t, store, gate.Options{}, flight(sluice.Concurrency{Max: 1, TTL: 10 * time.Second}))
		<-time.After(10*time.Second - time.Microsecond)
		if n := e.enter(t.Context(), "a"); !errors.Is(n.err, gate.ErrDenied) {
			t.Errorf("before the TTL has ended: %v", n.err)
		}
		<-time.After(time.Microsecond)
		if n := e.enter(t.Context(), "a"); n.err != nil {
			t.Errorf("after: %v", n.err)
		} else {
			n.admission.Leave(t.Context(), status(200))
		}
	})
}

// A queued request starts only when a unit is free, in order of arrival, whatever the estimate was.
func TestQueueForUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 20
		e := newEdge(t, bubbleStore(t), gate.Options{MaxDelay: time.Hour}, policy.Rule{
			Name: "flight", Key: []policy.Part{policy.Global()},
			Limits: limit(sluice.Concurrency{Max: 2, Queue: clients, TTL: time.Minute, Latency: 10 * time.Millisecond}),
		})
		var mu sync.Mutex
		running, most := 0, 0
		var order []int
		start := time.Now()
		var all sync.WaitGroup
		for i := range clients {
			v := e.decide(t.Context(), "a")
			<-time.After(time.Microsecond) // so that their order in the store is certain
			all.Go(func() {
				pass, err := e.gate.Enter(t.Context(), &v)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				running++
				most = max(most, running)
				mu.Unlock()
				<-time.After(90 * time.Second) // longer than the TTL of leases
				mu.Lock()
				running--
				mu.Unlock()
				pass.Leave(t.Context(), status(200))
			})
		}
		all.Wait()
		if most != 2 {
			t.Errorf("%d ran at once", most)
		}
		for i, n := range order {
			if n/2 != i/2 {
				t.Errorf("they started in the order %v", order)
				break
			}
		}
		// No request waits while a unit is free.
		if took := time.Since(start); took > clients/2*90*time.Second+time.Second {
			t.Errorf("all took %v", took)
		}
		if n := e.remaining("flight"); n != clients+2 || len(e.reported()) > 0 || e.gate.Waiting() != 0 {
			t.Errorf("%d units are left, reported %v", n, e.reported())
		}
	})
}

// Polling finds a unit that another process freed.
func TestUnitsThatOthersFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		rule := flight(sluice.Concurrency{Max: 3, Queue: 30, Latency: 5 * time.Second})
		one, other := newEdge(t, store, gate.Options{MaxDelay: time.Hour}, rule), newEdge(t, store, gate.Options{MaxDelay: time.Hour}, rule)
		var held, queued []*entry
		for range 3 {
			held = append(held, one.begin(t.Context(), "a"))
		}
		for range 6 {
			queued = append(queued, other.begin(t.Context(), "a"))
		}
		<-time.After(20 * time.Second)
		freed := time.Now()
		for _, n := range held {
			n.admission.Leave(t.Context(), status(200))
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		for i, n := range queued {
			switch {
			case i < 3 && (!n.done || n.err != nil || n.at.Sub(freed) > 2*time.Second):
				t.Errorf("request %d: done %v, %v after %v", i, n.done, n.err, n.at.Sub(freed))
			case i >= 3 && n.done:
				t.Errorf("request %d runs, but no unit is free for it", i)
			}
		}
		for i := range queued {
			queued[i].admission.Leave(t.Context(), status(200))
			synctest.Wait()
		}
		if n := one.remaining("flight", "a"); n != 33 {
			t.Errorf("%d units are left", n)
		}
	})
}

// counting counts decisions.
type counting struct {
	sluice.Store
	mu sync.Mutex
	n  int
}

func (s *counting) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	s.mu.Lock()
	s.n++
	s.mu.Unlock()
	return s.Store.Decide(ctx, r)
}

func (s *counting) polls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// However many requests wait, only a few poll the store, less and less often. The others only
// renew their leases.
func TestNoHerdPollsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: bubbleStore(t)}
		rule := flight(sluice.Concurrency{Max: 1, Queue: 1000, TTL: 10 * time.Minute, Latency: time.Second})
		rule.MaxWaitingPerKey = 1000
		e := newEdge(t, store, gate.Options{MaxDelay: time.Hour}, rule)
		ctx, leave := context.WithCancel(t.Context())
		first := e.enter(ctx, "a")
		for range 500 {
			e.begin(ctx, "a")
		}
		before := store.polls()
		<-time.After(time.Minute)
		if n := store.polls() - before; n < 60 || n > 600 {
			t.Errorf("500 waiters polled %d times in a minute", n)
		}
		before = store.polls()
		first.admission.Leave(ctx, status(200))
		synctest.Wait()
		if n := store.polls() - before; n > 4 || e.gate.Waiting() != 499 {
			t.Errorf("after a unit was freed, the store was polled %d times, and %d wait", n, e.gate.Waiting())
		}
		leave()
		synctest.Wait()
	})
}

// A request that cannot wait any longer leaves the waiting queue and gives up its turn in the store.
func TestQueueForUnitsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := flight(sluice.Concurrency{Max: 1, Queue: 5, Latency: 100 * time.Millisecond})
		rule.MaxWait = time.Second
		e := newEdge(t, bubbleStore(t), gate.Options{}, rule)
		first, start := e.enter(t.Context(), "a"), time.Now()
		n := e.enter(t.Context(), "a")
		if !errors.Is(n.err, gate.ErrTooLate) || n.at.Sub(start) != time.Second {
			t.Errorf("after %v: %v", n.at.Sub(start), n.err)
		}
		if left := e.remaining("flight", "a"); left != 5 {
			t.Errorf("%d units are left", left)
		}
		first.admission.Leave(t.Context(), status(200))
	})
}

// scripted is a store that returns a delay first, and then its scripted decision and error.
type scripted struct {
	sluice.Store
	polled *int
	delay  time.Duration
	next   sluice.Decision
	err    error
}

func (s scripted) Decide(context.Context, sluice.Request) (sluice.Decision, error) {
	if *s.polled++; *s.polled == 1 {
		return sluice.Decision{Allowed: true, Limit: 2, Delay: s.delay}, nil
	}
	return s.next, s.err
}
func (s scripted) Release(context.Context, sluice.Charge, time.Duration) error { return nil }
func (s scripted) Cancel(context.Context, sluice.Charge) error                 { return nil }

// If the store fails, the fallback decides a waiting request. If its lease is lost, it is refused.
func TestStoreFailsWhileRequestsWait(t *testing.T) {
	outage := errors.New("outage")
	for _, c := range []struct {
		name     string
		store    scripted
		fallback sluice.Fallback
		want     error
		reason   sluice.Reason
		reported int
	}{
		{"in time", scripted{next: sluice.Decision{Allowed: true}}, 0, nil, 0, 0},
		{"outage, allow", scripted{err: outage}, sluice.FallbackAllow, nil, 0, 1},
		{"outage, deny", scripted{err: outage}, sluice.FallbackDeny, outage, sluice.ReasonStoreError, 0},
		{"lost", scripted{next: sluice.Decision{Reason: sluice.ReasonLimited}}, 0, sluice.ErrLeaseLost, sluice.ReasonLimited, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.store.polled, c.store.delay = new(int), time.Second
			rule := flight(sluice.Concurrency{Max: 1, Queue: 1, Latency: time.Second})
			rule.OnStoreError = c.fallback
			e := newEdge(t, c.store, gate.Options{}, rule)
			n := e.enter(t.Context(), "a")
			if !errors.Is(n.err, c.want) || n.verdict.Reason != c.reason || len(e.reported()) != c.reported {
				t.Errorf("%s: %v, %v, reported %v", c.name, n.err, n.verdict.Reason, e.reported())
			}
			n.admission.Leave(t.Context(), status(200))
		})
	}
}

// An error while a request runs is reported, and the request continues.
func TestFailedRenewalsAreReported(t *testing.T) {
	outage := errors.New("outage")
	for _, c := range []struct {
		store scripted
		want  error
	}{
		{scripted{next: sluice.Decision{Reason: sluice.ReasonLimited}}, sluice.ErrLeaseLost},
		{scripted{err: outage}, outage},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.store.polled = new(int)
			e := newEdge(t, c.store, gate.Options{}, flight(sluice.Concurrency{Max: 1, TTL: 2 * time.Second}))
			n := e.enter(t.Context(), "a")
			<-time.After(2500 * time.Millisecond)
			n.admission.Leave(t.Context(), status(200))
			if errs := e.reported(); len(errs) != 2 || !errors.Is(errs[0], c.want) {
				t.Errorf("reported %v", errs)
			}
		})
	}
}

// Shadow rules hold leases, but no request waits for them.
func TestShadowHoldsAndNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := flight(sluice.Concurrency{Max: 1, Queue: 5, Latency: time.Second})
		rule.Shadow = true
		e := newEdge(t, bubbleStore(t), gate.Options{}, rule, policy.Rule{Name: "few", Limits: limit(sluice.FixedWindow{Rate: sluice.PerHour(2)})})
		start := time.Now()
		a, b := e.enter(t.Context(), "a"), e.enter(t.Context(), "a")
		if b.err != nil || b.at != start || e.remaining("flight", "a") != 4 {
			t.Errorf("waited for %v, %v; %d units are left", b.at.Sub(start), b.err, e.remaining("flight", "a"))
		}
		if c := e.enter(t.Context(), "a"); !errors.Is(c.err, gate.ErrDenied) || e.remaining("flight", "a") != 4 {
			t.Errorf("after a request that another rule refuses, %d units are left: %v", e.remaining("flight", "a"), c.err)
		}
		a.admission.Leave(t.Context(), status(200))
		b.admission.Leave(t.Context(), status(200))
		if n := e.remaining("flight", "a"); n != 6 {
			t.Error(fmt.Sprint(n, " units are left"))
		}
	})
}

// A queued request waits for a free unit even if the limit has no estimated latency.
func TestQueueWithoutALatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{}, flight(sluice.Concurrency{Max: 1, Queue: 1}))
		first := e.enter(t.Context(), "a")
		second := e.begin(t.Context(), "a")
		<-time.After(time.Second)
		synctest.Wait()
		if second.done {
			t.Fatal("both run")
		}
		first.admission.Leave(t.Context(), status(200))
		synctest.Wait()
		if !second.done || second.err != nil {
			t.Errorf("the unit is free, and the second does not run: %v", second.err)
		}
		second.admission.Leave(t.Context(), status(200))
	})
}

// silentStore fails to end leases while it is silent.
type silentStore struct {
	sluice.Store
	silent atomic.Bool
	polled atomic.Int64
}

var errSilent = errors.New("the store is silent")

func (s *silentStore) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	s.polled.Add(1)
	if s.silent.Load() {
		return errSilent
	}
	return s.Store.Release(ctx, c, latency)
}

func (s *silentStore) Cancel(ctx context.Context, c sluice.Charge) error {
	s.polled.Add(1)
	if s.silent.Load() {
		return errSilent
	}
	return s.Store.Cancel(ctx, c)
}

// Leases that end while the store is down are freed soon after it is back, not only at their TTL. That holds
// for handled and refused requests.
func TestLeasesThatEndInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &silentStore{Store: bubbleStore(t)}
		e := newEdge(t, store, gate.Options{MaxDelay: time.Second}, flight(sluice.Concurrency{Max: 2, Queue: 1, TTL: time.Minute, Latency: time.Millisecond}))
		one, two := e.enter(t.Context(), "a"), e.enter(t.Context(), "a")
		store.silent.Store(true)
		if n := e.enter(t.Context(), "a"); !errors.Is(n.err, gate.ErrTooLate) {
			t.Fatalf("the queued request: %v", n.err)
		}
		one.admission.Leave(t.Context(), status(200))
		two.admission.Leave(t.Context(), status(200))
		if n := len(e.reported()); n != 3 {
			t.Errorf("%d errors are reported for 3 leases", n)
		}
		<-time.After(10 * time.Second)
		if n := e.remaining("flight", "a"); n != 0 {
			t.Errorf("%d are free, although the store has not ended them", n)
		}
		store.silent.Store(false)
		<-time.After(10 * time.Second)
		if n := e.remaining("flight", "a"); n != 3 {
			t.Errorf("%d are free of 2 and a turn in the queue", n)
		}
		polled := store.polled.Load()
		if polled > 40 {
			t.Errorf("3 leases were ended %d times", polled)
		}
		<-time.After(time.Hour)
		if n := store.polled.Load(); n != polled || len(e.reported()) != 3 {
			t.Errorf("the store was called %d more times; reported %v", n-polled, e.reported())
		}
	})
}

// A store that stays down is called no longer than the TTL of leases.
func TestLeasesOfAStoreThatStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &silentStore{Store: bubbleStore(t)}
		e := newEdge(t, store, gate.Options{}, flight(sluice.Concurrency{Max: 2, TTL: time.Minute}))
		n := e.enter(t.Context(), "a")
		store.silent.Store(true)
		n.admission.Leave(t.Context(), status(200))
		<-time.After(time.Minute + 10*time.Second)
		polled := store.polled.Load()
		<-time.After(time.Hour)
		if got := store.polled.Load(); got != polled || polled > 60 {
			t.Errorf("it was called %d times, and %d more", polled, got-polled)
		}
	})
}
