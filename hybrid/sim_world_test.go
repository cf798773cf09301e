package hybrid

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/granttest"
)

// world is one run of a scenario: the server, the processes and what is known about all of them. It runs under
// virtual time. Its processes are hybrid.Stores, which share nothing but the server.
type world struct {
	*scenario
	history
	ledgers  []*ledger // of each key
	began    time.Time // virtual
	ahead    atomic.Int64
	slept    atomic.Int64 // for which the monotonic clocks stopped, in nanoseconds
	server   *granttest.Server
	past     map[int]past // by the fault that goes back to it
	nodes    []*node
	trick    trick
	injected bool // a defect: the accounts need not balance
	started  int  // processes, a restart counts again

	mu       sync.Mutex
	changes  int // of the limits that processes use
	admitted int64
	locals   int64
	denied   int64
	batches  int64     // decided locally
	refunded int64     // units
	excuse   time.Time // until then, the server may not know what processes hold
}

// past is what a failover goes back to.
type past struct {
	data granttest.Data
	sums []sums // of each ledger
}

// node is one process.
type node struct {
	number int
	chance *rand.Rand
	skew   int64   // of its wall clock
	drift  float64 // of both its clocks

	mu    sync.Mutex
	link  *link
	store *Store
	limit *sluice.Limit
}

// newWorld starts the server and the processes.
func newWorld(s *scenario, f granttest.Fault, t trick) *world {
	w := &world{scenario: s, began: time.Now(), past: map[int]past{}, trick: t, injected: f != granttest.Correct || t != noTrick}
	w.history.since = w.began
	w.server = granttest.New(granttest.Options{
		Clock: w.serverTime, Fault: f,
		Charged: func(c sluice.Charge, at int64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			l := w.ledger(c.Key)
			l.given += c.Cost
			w.admit(l, c.Cost, at)
			l.charged[c.Receipt.At] = l.bound.counts(at)
		},
		Granted: func(_ *sluice.Limit, k sluice.Key, units, _ int64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ledger(k).given += units
		},
	})
	laws := []*sluice.Limit{s.limit}
	if s.others > 0 {
		laws = append(laws, s.other)
	}
	for i := range s.keys {
		w.ledgers = append(w.ledgers, newLedger(i, laws, w.serverTime()))
	}
	for i := range s.nodes {
		n := &node{number: i, chance: rand.New(rand.NewPCG(s.seed, uint64(100+i))), limit: s.limit}
		if i < s.others {
			n.limit = s.other
		}
		n.skew = n.chance.Int64N(int64(10*time.Second)) - int64(5*time.Second)
		n.drift = s.drifts * one(rand.New(rand.NewPCG(s.seed, uint64(200+i))), 0.0, 1, -1)
		w.nodes = append(w.nodes, n)
		w.start(n)
	}
	return w
}

// serverTime is the server's clock.
func (w *world) serverTime() int64 {
	elapsed := float64(time.Since(w.began).Microseconds()) * (1 + w.drift)
	return w.scenario.start.UnixMicro() + int64(elapsed) + w.ahead.Load()
}

// life returns the longest life of a grant.
func (s *scenario) life() time.Duration {
	life := s.limit.Hybrid().Life
	if h := s.other.Hybrid(); h != nil {
		life = max(life, h.Life)
	}
	return life
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // under testing/synctest, the sleep is virtual
}

// elapsed returns the time since the begin, with the time for which the processes were suspended.
func (w *world) elapsed() time.Duration { return time.Since(w.began) + time.Duration(w.slept.Load()) }

// start starts a process, or starts it again with the same identity.
func (w *world) start(n *node) {
	w.started++
	n.link = &link{
		server: w.server, log: w, node: n.number, trick: w.trick, weather: w.weather,
		chance:   rand.New(rand.NewPCG(w.seed, uint64(1000*w.started+n.number))),
		attempts: map[uint64]uint64{}, sent: map[uint64]driver.Claim{}, handled: map[uint64]time.Duration{},
	}
	wall := func() int64 {
		now := time.Now().UnixNano() + n.skew + int64(n.drift*float64(time.Since(w.began)))
		if w.trick == monotonicOnly {
			return now
		}
		return now + w.slept.Load()
	}
	var err error
	n.store, err = New(n.link, Options{Holder: uint64(n.number + 1), Wall: wall, Seed: w.seed + 1})
	if err != nil {
		panic(err)
	}
	n.store.registry.hotFrom, n.store.clock.drift = 2, n.drift
}

// admit checks units that were admitted. The world is locked.
func (w *world) admit(l *ledger, units, at int64) {
	h := w.limit.Hybrid()
	w.admitted += units
	most := h.Overdraft + int64(w.started)*h.Credit
	over, plain := l.admit(units, at)
	l.worst = max(l.worst, plain)
	if over > most {
		w.fail("%d units beyond the limit of %d, and at most %d are allowed", over, largest(l.laws), most)
	}
}

// given returns how many units of a key the server has charged and granted so far.
func (w *world) given(k sluice.Key) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ledger(k).given
}

// booked notes that the server has counted spends on credit.
func (w *world) booked(k sluice.Key, units int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledger(k).credits += units
}

// excused reports whether a fault has made the server forget what processes hold.
func (w *world) excused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.excuse)
}

// reset is what a reset of a key does to the bounds.
func (w *world) reset(k sluice.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.ledger(k)
	l.bound.reset(w.serverTime())
	l.plain.reset(w.serverTime())
}

// newRequest makes a request of a process, which is locked.
func (w *world) newRequest(n *node, l *ledger) sluice.Request {
	r := sluice.Request{Limit: n.limit, Key: l.key, Cost: 1 + n.chance.Int64N(w.cost)}
	if w.floors && n.chance.IntN(3) == 0 {
		r.Floor = n.chance.Int64N(min(w.limit.Capacity(), w.other.Capacity()) / 4)
	}
	r.Debit = w.debits && n.chance.IntN(8) == 0
	return r
}

// request decides one request of a process, or a batch.
func (w *world) request(n *node) {
	n.mu.Lock()
	if rs := w.newBatch(n); rs != nil {
		store := n.store
		n.mu.Unlock()
		w.requestAll(n, store, rs)
		return
	}
	store, r := n.store, w.newRequest(n, w.ledgers[0])
	n.mu.Unlock()
	d, ok := store.DecideLocally(r)
	if ok {
		w.decided(n, &r, &d)
		w.correct(n, store, &r, &d)
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		d, err := store.Decide(ctx, r)
		if err == nil {
			w.decided(n, &r, &d)
			w.correct(n, store, &r, &d)
		}
	}()
}

// decided handles a decision. The server counts the charges of exact decisions itself.
func (w *world) decided(n *node, r *sluice.Request, d *sluice.Decision) {
	local := d.Allowed && d.Receipt.At&localBit != 0
	w.history.decided(n.number, r, d, local)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case local:
		w.locals += r.Cost
		w.admit(w.ledger(r.Key), r.Cost, w.serverTime())
	case !d.Allowed:
		w.denied++
		w.explain(r, d)
	}
}

// run makes the requests of a process until a time.
func (w *world) run(n *node, a load, until time.Duration) {
	for {
		at := time.Since(w.began)
		n.mu.Lock()
		d, request := a.next(n.chance, n.number, w.scenario.nodes, at)
		n.mu.Unlock()
		if at+d > until {
			return
		}
		pass(d)
		n.link.awaken()
		if w.failed() {
			return
		}
		if request {
			w.request(n)
		}
	}
}

// play runs the scenario to its end.
func (w *world) play() {
	var all sync.WaitGroup
	for _, n := range w.nodes {
		all.Go(func() { w.run(n, w.load, w.length) })
	}
	all.Go(func() { w.watch(w.length) })
	for i, f := range w.faults {
		if f.what == failover {
			all.Go(func() {
				pass(max(0, f.at-max(f.long, time.Microsecond)))
				w.remember(i)
			})
		}
		all.Go(func() {
			pass(f.at)
			w.strike(i, f)
		})
	}
	all.Wait()
	if !w.failed() {
		w.heal()
	}
	pass(time.Second) // until all is reported and returned
	w.end()
	for _, n := range w.nodes {
		n.store.Close()
	}
	pass(time.Hour) // until no call is on its way
}

// watch checks what always holds, now and then.
func (w *world) watch(until time.Duration) {
	step := w.limit.Hybrid().Sync/3 + 7*time.Nanosecond
	for time.Since(w.began)+step < until && !w.failed() {
		pass(step)
		w.check()
	}
}
