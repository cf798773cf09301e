package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/redisstore"
)

// slotLimits are of all algorithms, and give back next to nothing while a test runs.
var slotLimits = []*sluice.Limit{
	slotWarm, slotQueue, slotFront, slotLeases,
	sluice.MustLimit("slots bucket", sluice.TokenBucket{Rate: sluice.PerDay(2), Burst: 60}),
	sluice.MustLimit("slots aligned", sluice.FixedWindow{Rate: sluice.Per(60, 100*24*time.Hour)}),
	sluice.MustLimit("slots opened", sluice.FixedWindow{Rate: sluice.PerDay(60), Opened: true}),
	sluice.MustLimit("slots calendar", sluice.FixedWindow{Rate: sluice.PerDay(60), Calendar: sluice.CalendarMonth}),
	sluice.MustLimit("slots cells", sluice.SlidingWindow{Rate: sluice.PerDay(60)}),
	sluice.MustLimit("slots counter", sluice.SlidingCounter{Rate: sluice.PerDay(60)}),
	sluice.MustLimit("slots log", sluice.SlidingLog{Rate: sluice.PerDay(60)}),
}

var (
	// slotWarm is cold, and owes for hours what one unit costs it.
	slotWarm   = sluice.MustLimit("slots warm", sluice.TokenBucket{Rate: sluice.PerDay(60), Burst: 60, WarmUp: time.Hour})
	slotQueue  = sluice.MustLimit("slots queue", sluice.LeakyBucket{Rate: sluice.PerDay(1), Queue: 59})
	slotFront  = sluice.MustLimit("slots front", sluice.LeakyBucket{Rate: sluice.PerDay(1), Queue: 59, Undelayed: 20})
	slotLeases = sluice.MustLimit("slots leases", sluice.Concurrency{Max: 60, TTL: time.Hour})
)

// A slotted is a store on a cluster, reached through proxies.
type slotted struct {
	*testing.T
	cluster *adapters.Proxied
	store   *redisstore.Store
	members uint64
}

// keyOn returns a key that no request has used and that the n-th node holds.
func (s *slotted) keyOn(n int) sluice.Key {
	s.Helper()
	for {
		s.members++
		k := sluice.StringKey(fmt.Sprint("slotted ", s.members))
		if _, owner, _ := s.cluster.OwnerOf(s.T, slotKey(k)); owner == s.cluster.Nodes[n] {
			return k
		}
	}
}

func (s *slotted) request(l *sluice.Limit, k sluice.Key, cost int64) sluice.Request {
	s.members++
	return sluice.Request{Limit: l, Key: k, Cost: cost, Member: s.members}
}

// cost is what a request for some units costs, where there are only single ones.
func cost(l *sluice.Limit, units int64) int64 {
	if l == slotLeases || l == slotWarm {
		return 1
	}
	return units
}

func (s *slotted) take(l *sluice.Limit, k sluice.Key, units int64) {
	s.Helper()
	r := s.request(l, k, cost(l, units))
	if d, err := s.store.Decide(redistest.Within(s, redistest.Soon), r); err != nil || !d.Allowed {
		s.Fatalf("%v: %d units should be there: %+v, %v", l, units, d, err)
	}
}

func (s *slotted) peek(l *sluice.Limit, k sluice.Key) sluice.Decision {
	s.Helper()
	d, err := s.store.Decide(redistest.Within(s, redistest.Soon), sluice.Request{Limit: l, Key: k, Peek: true})
	if err != nil {
		s.Fatal(err)
	}
	return d
}

// wantSame holds a key to be as it was, except for the time that has passed.
func (s *slotted) wantSame(what string, l *sluice.Limit, got, want sluice.Decision) {
	s.Helper()
	const passed = 10 * time.Second
	if got.Remaining != want.Remaining || got.ResetAfter > want.ResetAfter || got.ResetAfter < want.ResetAfter-passed {
		s.Errorf("%s of %v: %d remain for %v; before it was %d for %v", what, l, got.Remaining, got.ResetAfter, want.Remaining, want.ResetAfter)
	}
}

var slotFull = sluice.MustLimit("slots full", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 10})

// TestBatchOverSlots: where one slot denies, the others are as they were; and a slot
// whose reply was lost keeps what it was charged.
func TestBatchOverSlots(t *testing.T) {
	t.Parallel()
	p := adapters.StartProxied(t)
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		s := &slotted{T: t, cluster: p, store: a.Open(t, p.Route, redisstore.Options{Prefix: a.Name})}
		full := s.keyOn(2)
		s.take(slotFull, full, 10)
		for _, l := range slotLimits {
			s.denies(l, full, 0)
			if l != slotWarm {
				s.denies(l, full, 5)
				s.loses(l)
			}
		}
		s.deniesBeside(full)
		redistest.CheckTTL(t, p.Nodes...)
	})
}

// denies requests units in two slots, and in one that has none left.
func (s *slotted) denies(l *sluice.Limit, full sluice.Key, used int64) {
	s.Helper()
	first, second := s.keyOn(0), s.keyOn(1)
	if used > 0 {
		s.take(l, first, used)
		s.take(l, second, used)
	}
	was, alsoWas := s.peek(l, first), s.peek(l, second)
	for range 3 {
		rs := []sluice.Request{s.request(l, first, cost(l, 3)), s.request(slotFull, full, 1), s.request(l, second, cost(l, 2))}
		if l != slotWarm {
			rs = append(rs, s.request(l, first, cost(l, 2))) // again
		}
		out := make([]sluice.Decision, len(rs))
		err := s.store.DecideAll(redistest.Within(s, redistest.Soon), rs, out)
		if err != nil || out[1].Allowed || !out[0].Allowed || !out[2].Allowed {
			s.Fatalf("%v: only the full slot should deny: %+v, %v", l, out, err)
		}
		s.wantSame("a denial elsewhere", l, s.peek(l, first), was)
		s.wantSame("a denial elsewhere", l, s.peek(l, second), alsoWas)
	}
	if d := s.peek(slotFull, full); d.Remaining != 0 {
		s.Errorf("%d remain of what is full", d.Remaining)
	}
}

// loses cuts the reply of one slot of two.
func (s *slotted) loses(l *sluice.Limit) {
	s.Helper()
	first, second := s.keyOn(0), s.keyOn(1)
	s.take(l, first, 5)
	s.take(l, second, 5)
	s.take(slotFull, s.keyOn(1), 1) // so that connections are there
	was, wasLost := s.peek(l, first), s.peek(l, second)
	proxy := s.cluster.Proxies[s.cluster.Nodes[1]]
	// The script of a batch may not be known yet: then its source goes on a connection
	// that is cut, and the reply of both is lost. NOSCRIPT comes whole.
	warm := []sluice.Request{s.request(l, s.keyOn(0), 1), s.request(l, s.keyOn(1), 1)}
	if err := s.store.DecideAll(redistest.Within(s, redistest.Soon), warm, make([]sluice.Decision, 2)); err != nil {
		s.Fatal(err)
	}
	if err := proxy.Cut("evalsha", 3); err != nil {
		s.Fatal(err)
	}
	err := s.store.DecideAll(redistest.Within(s, redistest.Soon), []sluice.Request{
		s.request(l, first, cost(l, 3)), s.request(l, second, cost(l, 3)),
	}, make([]sluice.Decision, 2))
	if !errors.Is(err, sluice.ErrUnknownOutcome) {
		s.Errorf("%v: the reply of one slot was lost: %v", l, err)
	}
	if err := proxy.Pass(); err != nil {
		s.Fatal(err)
	}
	s.recovers(l, second)
	s.wantSame("a lost reply elsewhere", l, s.peek(l, first), was)
	if got, want := s.peek(l, second).Remaining, wasLost.Remaining-cost(l, 3); got != want {
		s.Errorf("%v: %d remain where the reply was lost, want %d: charged once, and not given back", l, got, want)
	}
}

// deniesBeside requests a unit of a key that has none left, and one of a slot whose reply is
// lost: a ladder that allows does not allow what is denied.
func (s *slotted) deniesBeside(full sluice.Key) {
	s.Helper()
	ladder, err := guard.New(guard.Options{Store: s.store, Deadline: redistest.Soon, Default: sluice.FallbackAllow, Inline: true})
	if err != nil {
		s.Fatal(err)
	}
	rs := []sluice.Request{s.request(slotFull, s.keyOn(1), 1), s.request(slotFull, full, 1)}
	out := make([]sluice.Decision, len(rs))
	if err := s.store.DecideAll(redistest.Within(s, redistest.Soon), rs, out); err != nil { // the script is known then
		s.Fatal(err)
	}
	proxy := s.cluster.Proxies[s.cluster.Nodes[1]]
	if err := proxy.Cut("evalsha", 3); err != nil {
		s.Fatal(err)
	}
	if err := ladder.DecideAll(s.Context(), rs, out); err != nil {
		s.Fatal(err)
	}
	if err := proxy.Pass(); err != nil {
		s.Fatal(err)
	}
	if lost, denied := out[0], out[1]; !lost.Allowed || !lost.Degraded || denied.Allowed || denied.Degraded || denied.Reason != sluice.ReasonLimited {
		s.Errorf("beside a lost reply, which is %+v, a denial is %+v", lost, denied)
	}
	s.recovers(slotFull, rs[0].Key)
}

// recovers returns when a key can be looked at.
func (s *slotted) recovers(l *sluice.Limit, k sluice.Key) {
	s.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		if _, err := s.store.Decide(redistest.Within(s, redistest.Soon), sluice.Request{Limit: l, Key: k, Peek: true}); err == nil {
			return
		}
		<-tick.C
	}
	s.Fatal("no call succeeds any more")
}

// TestBatchesOverSlotsCompete requests keys on all nodes at once, in batches that often
// end in a denial: no key admits more than it may, and when all is quiet, what is taken is what
// was granted. Leaky buckets keep turns that others wait behind, and too little is admitted.
func TestBatchesOverSlotsCompete(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		store := a.Open(t, adapters.ToCluster(cluster), redisstore.Options{Prefix: a.Name})
		for _, l := range slotLimits {
			compete(t, store, l)
		}
		redistest.CheckTTL(t, cluster.Nodes...)
	})
}

func compete(t *testing.T, store *redisstore.Store, l *sluice.Limit) {
	t.Helper()
	const callers, keys = 8, 6
	calls := redistest.Times(t, 10)
	var admitted [keys]atomic.Int64
	var members atomic.Uint64
	key := func(i int) sluice.Key { return sluice.StringKey(fmt.Sprint("compete ", i)) }
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 0))
			for range calls {
				asked := rnd.Perm(keys)[:3]
				rs, out := make([]sluice.Request, len(asked)), make([]sluice.Decision, len(asked))
				for j, k := range asked {
					rs[j] = sluice.Request{Limit: l, Key: key(k), Cost: 1, Member: members.Add(1)}
				}
				if err := store.DecideAll(redistest.Within(t, redistest.Soon), rs, out); err != nil {
					t.Error(err)
					return
				}
				if out[0].Allowed && out[1].Allowed && out[2].Allowed {
					for _, k := range asked {
						admitted[k].Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	for i := range admitted {
		d, err := store.Decide(redistest.Within(t, redistest.Soon), sluice.Request{Limit: l, Key: key(i), Peek: true})
		if err != nil {
			t.Fatal(err)
		}
		got, taken := admitted[i].Load(), l.Capacity()-d.Remaining
		exact := l != slotWarm && l != slotQueue && l != slotFront
		if got > l.Capacity() || taken < got || exact && taken != got {
			t.Errorf("%v: key %d admitted %d of %d, and %d are taken", l, i, got, l.Capacity(), taken)
		}
	}
}
