package linearizable

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/oracle"
	"github.com/sluicehq/sluice/memory"
)

// The size of a history.
const (
	callers    = 8
	operations = 50 // per caller
	keys       = 4
)

// A subject is an algorithm, its model, and what callers do with it.
type subject struct {
	name      string
	algorithm sluice.Algorithm
	fresh     oracle.State
	waits     bool // a request may wait for longer than the limit offers by itself
	ends      bool // callers cancel and settle charges
	leases    bool // callers release charges
}

// A plan says what a history is like.
type plan struct {
	seed    uint64
	phases  int // between which time passes
	batches bool
	resets  bool
	ends    bool
	costly  bool // only peeks, and takes that cost something
}

// recorder runs the callers of one history.
type recorder struct {
	subject
	plan
	store   sluice.Store
	limit   *sluice.Limit
	keys    []sluice.Key
	now     atomic.Int64 // the store's clock
	order   atomic.Int64 // counts calls and returns
	member  atomic.Uint64
	errs    chan error
	mu      sync.Mutex
	history []porcupine.Operation
}

// record returns the history of some callers of a store.
func record(t *testing.T, s *subject, p plan, wrap func(sluice.Store) sluice.Store) []porcupine.Operation {
	t.Helper()
	r := &recorder{subject: *s, plan: p, limit: sluice.MustLimit(s.name, s.algorithm), errs: make(chan error, 1)}
	start := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	random := rand.New(rand.NewPCG(p.seed, 1))
	r.now.Store(start + random.Int64N(2*length))
	reads := rand.Uint64()
	store, err := memory.New(memory.Options{MaxBytes: 4 << 20, Stripes: 1 + int(p.seed%2), Clock: func() int64 {
		// Other callers run while an entry or a shard is locked.
		if n := atomic.AddUint64(&reads, 0x9e3779b97f4a7c15); n>>62 == 0 {
			runtime.Gosched()
		}
		return r.now.Load()
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.store = wrap(store)
	n := keys
	if p.batches {
		n = 2
	}
	for i := range n {
		r.keys = append(r.keys, sluice.StringKey(string(rune('a'+i))))
	}
	many := make([]*caller, callers)
	for i := range many {
		many[i] = &caller{recorder: r, id: i, random: rand.New(rand.NewPCG(p.seed, uint64(2+i)))}
	}
	for phase := range p.phases {
		if phase > 0 {
			r.now.Add([]int64{1, random.Int64N(unit), unit, random.Int64N(3 * unit), random.Int64N(length)}[random.IntN(5)])
		}
		var done sync.WaitGroup
		for _, c := range many {
			done.Go(func() {
				for range operations / p.phases {
					c.call()
				}
			})
		}
		done.Wait()
	}
	last := caller{recorder: r, id: callers, random: random}
	for k := range r.keys {
		last.do(&call{verb: peek, key: k, requests: [2]request{{cost: 1}}})
	}
	select {
	case err := <-r.errs:
		t.Fatal(err)
	default:
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return r.history
}

// A caller makes one call after another.
type caller struct {
	*recorder
	id      int
	random  *rand.Rand
	charges []held
}

// A held charge is one that its caller may still end.
type held struct {
	charge
	key int
}

// one returns one of some values.
func one[T any](c *caller, values ...T) T { return values[c.random.IntN(len(values))] }

// request makes up a request.
func (c *caller) request() request {
	r := request{cost: one[int64](c, 1, 1, 1, 2, 2, 3, 5)}
	if c.costly {
		return c.identify(r)
	}
	r.cost = one(c, r.cost, r.cost, r.cost, r.cost, r.cost, 0, 11)
	r.floor = one[int64](c, 0, 0, 0, 2, 3)
	if c.waits {
		r.wait = one[int64](c, 0, 0, 0, unit, 3*unit)
	}
	return c.identify(r)
}

// identify gives a request for a lease a new member, or the member of a lease that the caller holds.
func (c *caller) identify(r request) request {
	if !c.leases {
		return r
	}
	r.member = c.member.Add(1)
	if !c.costly && len(c.charges) > 0 && c.random.IntN(8) == 0 {
		r.member = one(c, c.charges...).member
	}
	return r
}

// call makes up a call and makes it.
func (c *caller) call() {
	in := &call{verb: take, key: c.random.IntN(len(c.keys)), requests: [2]request{c.request(), {}}}
	dice := c.random.IntN(20)
	switch {
	case dice < 3:
		in.verb = peek
	case dice == 3 && c.resets:
		in.verb = reset
	case dice < 10 && c.plan.ends && len(c.charges) > 0:
		i := c.random.IntN(len(c.charges))
		h := c.charges[i]
		c.charges = slices.Delete(c.charges, i, i+1)
		in.key, in.charge = h.key, h.charge
		in.verb = one(c, cancel, settle)
		in.actual = one[int64](c, 0, 1, 2, 4)
		if c.leases {
			in.verb = one(c, release, release, cancel)
			if c.random.IntN(6) == 0 {
				c.charges = append(c.charges, h) // to release it twice
			}
		}
		if !c.resets && !c.leases && h.cost == 0 || c.resets && in.verb == settle {
			in.actual = min(in.actual, h.cost)
		}
	case dice < 14 && c.batches:
		in.verb, in.requests[1] = batch, c.request()
	}
	c.do(in)
}

// do makes one call and records it.
func (c *caller) do(in *call) {
	ctx := context.Background()
	out := new(result)
	in.now = c.now.Load()
	requests := [2]sluice.Request{}
	for i := range requests {
		r := in.requests[i]
		requests[i] = sluice.Request{
			Limit: c.limit, Key: c.keys[min(i, len(c.keys)-1)], Cost: r.cost, Floor: r.floor, MaxWait: micros(r.wait),
			Member: r.member, Peek: in.verb == peek,
		}
	}
	if in.verb != batch {
		requests[0].Key = c.keys[in.key]
	}
	called := c.order.Add(1)
	if c.random.IntN(4) == 0 {
		runtime.Gosched()
	}
	var err error
	switch in.verb {
	case take, peek:
		out.decisions[0], err = c.store.Decide(ctx, requests[0])
	case reset:
		err = c.store.Reset(ctx, c.limit, c.keys[in.key])
	case cancel:
		if err = c.store.Cancel(ctx, in.charge.store); errors.Is(err, sluice.ErrActed) {
			err = nil
		}
	case settle:
		err = c.store.Settle(ctx, in.charge.store, in.actual)
	case release:
		err = c.store.Release(ctx, in.charge.store, micros(heldFor))
		if out.lost = errors.Is(err, sluice.ErrLeaseLost); out.lost {
			err = nil
		}
	case batch:
		err = c.store.DecideAll(ctx, requests[:], out.decisions[:])
	}
	if c.random.IntN(4) == 0 {
		runtime.Gosched()
	}
	returned := c.order.Add(1)
	if err != nil {
		select {
		case c.errs <- err:
		default:
		}
	}
	switch d := out.decisions; {
	case in.verb == take && d[0].Allowed:
		c.keep(in, &requests[0], &d[0], in.key, 0)
	case in.verb == batch && d[0].Allowed && d[1].Allowed:
		c.keep(in, &requests[0], &d[0], 0, 0)
		c.keep(in, &requests[1], &d[1], 1, 1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: in, Call: called, Output: out, Return: returned})
}

// keep keeps a charge, so that the caller can end it later.
func (c *caller) keep(in *call, r *sluice.Request, d *sluice.Decision, key, i int) {
	c.charges = append(c.charges, held{key: key, charge: charge{
		request: in.requests[i], at: in.now, delay: d.Delay.Microseconds(), reset: d.ResetAfter.Microseconds(),
		over: d.Receipt.Over, store: r.Charge(d),
	}})
}
