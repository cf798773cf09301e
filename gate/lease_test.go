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

// Places are held as long as requests last, and free afterwards.
func TestLeasesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, bubbleStore(t), gate.Options{}, flight(sluice.Concurrency{Max: 1, TTL: 10 * time.Second}))
		first := e.enter(t.Context(), "a")
		<-time.After(time.Hour)
		if n := e.enter(t.Context(), "a"); !errors.Is(n.err, gate.ErrDenied) {
			t.Errorf("after an hour: %v", n.err)
		}
		first.pass.Leave(t.Context(), status(200))
		first.pass.Leave(t.Context(), status(200))
		if n := e.remaining("flight", "a"); n != 1 || len(e.reported()) > 0 {
			t.Errorf("%d are free; reported %v", n, e.reported())
		}
	})
}

// A process that is no more keeps its places for a time to live.
func TestLeasesOfTheDeadEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbleStore(t)
		dead := newEdge(t, store, gate.Options{}, flight(sluice.Concurrency{Max: 1, TTL: 10 * time.Second}))
		dead.decide(t.Context(), "a") // and it is killed before it enters anything
		e := newEdge(t, store, gate.Options{}, flight(sluice.Concurrency{Max: 1, TTL: 10 * time.Second}))
		<-time.After(10*time.Second - time.Microsecond)
		if n := e.enter(t.Context(), "a"); !errors.Is(n.err, gate.ErrDenied) {
			t.Errorf("before the time to live has ended: %v", n.err)
		}
		<-time.After(time.Microsecond)
		if n := e.enter(t.Context(), "a"); n.err != nil {
			t.Errorf("after: %v", n.err)
		} else {
			n.pass.Leave(t.Context(), status(200))
		}
	})
}

// Who is queued starts when a place is free, in the order of arrival, and not before, whatever was estimated.
func TestQueueForPlaces(t *testing.T) {
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
			<-time.After(time.Microsecond) // so that the store can tell their order
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
				<-time.After(90 * time.Second) // longer than leases live
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
		// Nobody waits for a place that is free.
		if took := time.Since(start); took > clients/2*90*time.Second+time.Second {
			t.Errorf("all took %v", took)
		}
		if n := e.remaining("flight"); n != clients+2 || len(e.reported()) > 0 || e.gate.Waiting() != 0 {
			t.Errorf("%d places are left, reported %v", n, e.reported())
		}
	})
}

// A place that another process frees is found by asking.
func TestPlacesThatOthersFree(t *testing.T) {
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
			n.pass.Leave(t.Context(), status(200))
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		for i, n := range queued {
			switch {
			case i < 3 && (!n.done || n.err != nil || n.at.Sub(freed) > 2*time.Second):
				t.Errorf("request %d: done %v, %v after %v", i, n.done, n.err, n.at.Sub(freed))
			case i >= 3 && n.done:
				t.Errorf("request %d runs, and no place is free for it", i)
			}
		}
		for i := range queued {
			queued[i].pass.Leave(t.Context(), status(200))
			synctest.Wait()
		}
		if n := one.remaining("flight", "a"); n != 33 {
			t.Errorf("%d places are left", n)
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

func (s *counting) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// However many wait, few ask the store again, and more and more seldom; the others only
// keep their leases.
func TestNoHerdAsksTheStore(t *testing.T) {
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
		before := store.asked()
		<-time.After(time.Minute)
		if n := store.asked() - before; n < 60 || n > 600 {
			t.Errorf("500 waiters asked %d times in a minute", n)
		}
		before = store.asked()
		first.pass.Leave(ctx, status(200))
		synctest.Wait()
		if n := store.asked() - before; n > 4 || e.gate.Waiting() != 499 {
			t.Errorf("after a place was freed, the store was asked %d times, and %d wait", n, e.gate.Waiting())
		}
		leave()
		synctest.Wait()
	})
}

// Who cannot wait any longer leaves the line, and its place in the store.
func TestQueueForPlacesEnds(t *testing.T) {
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
			t.Errorf("%d places are left", left)
		}
		first.pass.Leave(t.Context(), status(200))
	})
}

// scripted answers the first decision with a delay, and later ones as it is told.
type scripted struct {
	sluice.Store
	asked *int
	delay time.Duration
	next  sluice.Decision
	err   error
}

func (s scripted) Decide(context.Context, sluice.Request) (sluice.Decision, error) {
	if *s.asked++; *s.asked == 1 {
		return sluice.Decision{Allowed: true, Limit: 2, Delay: s.delay}, nil
	}
	return s.next, s.err
}
func (s scripted) Release(context.Context, sluice.Charge, time.Duration) error { return nil }
func (s scripted) Cancel(context.Context, sluice.Charge) error                 { return nil }

// What becomes of who waits when the store cannot say, or has lost its lease.
func TestTheStoreFailsWhoWaits(t *testing.T) {
	outage := errors.New("outage")
	for _, c := range []struct {
		name     string
		store    scripted
		fallback policy.Fallback
		want     error
		reason   sluice.Reason
		reported int
	}{
		{"in time", scripted{next: sluice.Decision{Allowed: true}}, 0, nil, 0, 0},
		{"outage, allow", scripted{err: outage}, policy.FallbackAllow, nil, 0, 1},
		{"outage, deny", scripted{err: outage}, policy.FallbackDeny, outage, sluice.ReasonStoreError, 0},
		{"lost", scripted{next: sluice.Decision{Reason: sluice.ReasonLimited}}, 0, sluice.ErrLeaseLost, sluice.ReasonLimited, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.store.asked, c.store.delay = new(int), time.Second
			rule := flight(sluice.Concurrency{Max: 1, Queue: 1, Latency: time.Second})
			rule.OnStoreError = c.fallback
			e := newEdge(t, c.store, gate.Options{}, rule)
			n := e.enter(t.Context(), "a")
			if !errors.Is(n.err, c.want) || n.verdict.Reason != c.reason || len(e.reported()) != c.reported {
				t.Errorf("%s: %v, %v, reported %v", c.name, n.err, n.verdict.Reason, e.reported())
			}
			n.pass.Leave(t.Context(), status(200))
		})
	}
}

// What fails while a request runs is reported, and the request goes on.
func TestRenewalFails(t *testing.T) {
	outage := errors.New("outage")
	for _, c := range []struct {
		store scripted
		want  error
	}{
		{scripted{next: sluice.Decision{Reason: sluice.ReasonLimited}}, sluice.ErrLeaseLost},
		{scripted{err: outage}, outage},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.store.asked = new(int)
			e := newEdge(t, c.store, gate.Options{}, flight(sluice.Concurrency{Max: 1, TTL: 2 * time.Second}))
			n := e.enter(t.Context(), "a")
			<-time.After(2500 * time.Millisecond)
			n.pass.Leave(t.Context(), status(200))
			if errs := e.reported(); len(errs) != 2 || !errors.Is(errs[0], c.want) {
				t.Errorf("reported %v", errs)
			}
		})
	}
}

// Rules in shadow hold places, and let nobody wait for them.
func TestShadowHoldsAndNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := flight(sluice.Concurrency{Max: 1, Queue: 5, Latency: time.Second})
		rule.Shadow = true
		e := newEdge(t, bubbleStore(t), gate.Options{}, rule, policy.Rule{Name: "few", Limits: limit(sluice.FixedWindow{Rate: sluice.PerHour(2)})})
		start := time.Now()
		a, b := e.enter(t.Context(), "a"), e.enter(t.Context(), "a")
		if b.err != nil || b.at != start || e.remaining("flight", "a") != 4 {
			t.Errorf("waited for %v, %v; %d places are left", b.at.Sub(start), b.err, e.remaining("flight", "a"))
		}
		if c := e.enter(t.Context(), "a"); !errors.Is(c.err, gate.ErrDenied) || e.remaining("flight", "a") != 4 {
			t.Errorf("of a request that another rule refuses %d places are left: %v", e.remaining("flight", "a"), c.err)
		}
		a.pass.Leave(t.Context(), status(200))
		b.pass.Leave(t.Context(), status(200))
		if n := e.remaining("flight", "a"); n != 6 {
			t.Error(fmt.Sprint(n, " places are left"))
		}
	})
}

// A limit that estimates no latency lets nobody run who is queued, either.
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
		first.pass.Leave(t.Context(), status(200))
		synctest.Wait()
		if !second.done || second.err != nil {
			t.Errorf("the place is free, and the second does not run: %v", second.err)
		}
		second.pass.Leave(t.Context(), status(200))
	})
}

// silentStore does not end leases while it is silent.
type silentStore struct {
	sluice.Store
	silent atomic.Bool
	asked  atomic.Int64
}

var errSilent = errors.New("the store is silent")

func (s *silentStore) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	s.asked.Add(1)
	if s.silent.Load() {
		return errSilent
	}
	return s.Store.Release(ctx, c, latency)
}

func (s *silentStore) Cancel(ctx context.Context, c sluice.Charge) error {
	s.asked.Add(1)
	if s.silent.Load() {
		return errSilent
	}
	return s.Store.Cancel(ctx, c)
}

// What ends while the store does not answer is free soon after it does again, whether requests were handled or
// refused, and not only when their leases would have ended.
func TestLeasesThatEndInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &silentStore{Store: bubbleStore(t)}
		e := newEdge(t, store, gate.Options{MaxDelay: time.Second}, flight(sluice.Concurrency{Max: 2, Queue: 1, TTL: time.Minute, Latency: time.Millisecond}))
		one, two := e.enter(t.Context(), "a"), e.enter(t.Context(), "a")
		store.silent.Store(true)
		if n := e.enter(t.Context(), "a"); !errors.Is(n.err, gate.ErrTooLate) {
			t.Fatalf("the queued one: %v", n.err)
		}
		one.pass.Leave(t.Context(), status(200))
		two.pass.Leave(t.Context(), status(200))
		if n := len(e.reported()); n != 3 {
			t.Errorf("%d errors are told of 3 leases", n)
		}
		<-time.After(10 * time.Second)
		if n := e.remaining("flight", "a"); n != 0 {
			t.Errorf("%d are free, of which the store has not been told", n)
		}
		store.silent.Store(false)
		<-time.After(10 * time.Second)
		if n := e.remaining("flight", "a"); n != 3 {
			t.Errorf("%d are free of 2 and a place in the queue", n)
		}
		asked := store.asked.Load()
		if asked > 40 {
			t.Errorf("3 leases were ended %d times", asked)
		}
		<-time.After(time.Hour)
		if n := store.asked.Load(); n != asked || len(e.reported()) != 3 {
			t.Errorf("the store was asked %d more times; told %v", n-asked, e.reported())
		}
	})
}

// A store that stays away is asked no longer than leases live.
func TestLeasesOfAStoreThatStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &silentStore{Store: bubbleStore(t)}
		e := newEdge(t, store, gate.Options{}, flight(sluice.Concurrency{Max: 2, TTL: time.Minute}))
		n := e.enter(t.Context(), "a")
		store.silent.Store(true)
		n.pass.Leave(t.Context(), status(200))
		<-time.After(time.Minute + 10*time.Second)
		asked := store.asked.Load()
		<-time.After(time.Hour)
		if got := store.asked.Load(); got != asked || asked > 60 {
			t.Errorf("it was asked %d times, and %d more", asked, got-asked)
		}
	})
}
