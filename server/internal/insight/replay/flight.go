package replay

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// flight is a request that passes and has something to end: it waits, holds leases, or has costs to settle. It does what a
// gate.Gate does, with events in place of sleeping.
type flight struct {
	engine  *engine
	id      int64
	results []policy.LimitResult
	leases  []*policy.LimitResult // that it holds
	queued  []*policy.LimitResult // limits whose queue it is in
	next    int                   // the lease that it waits for, an index of queued
	turn    int64                 // how long it waits for limits without leases
	began   int64                 // when it came
	handled int64                 // when it began to be handled
	service int64                 // how long it is handled
	leased  int64                 // the time between renewals of its leases
	end     policy.Outcome
	outcome outcome
	pending bool         // its outcome is not known after the wait of its turn
	rec     *logs.Record // to come back with; nil if clients do not
	attempt int
	over    bool
}

var background = context.Background() //nolint:gochecknoglobals // the store in memory does not read it

// hold collects the leases.
func (f *flight) hold() {
	for i := range f.results {
		if r := &f.results[i]; r.IsLease() {
			f.leases = append(f.leases, r)
			f.leased = min(f.leased, int64(r.Request.Limit.LeaseTTL()/2/time.Microsecond))
		}
	}
	if len(f.leases) > 0 {
		f.engine.events.add(f.began+f.leased, f, renews)
	}
}

// queue lets the request wait for the limits that delay it. It returns the limit for which it cannot wait.
func (f *flight) queue() (late *policy.LimitResult) {
	for i := range f.results {
		r := &f.results[i]
		if !isDelayed(r) {
			continue
		}
		if r.Decision.Delay > longest(r) || !f.engine.admit(r, 1) {
			return r
		}
		f.queued = append(f.queued, r)
		if !r.IsLease() {
			f.turn = max(f.turn, int64(r.Decision.Delay/time.Microsecond))
		}
	}
	return nil
}

// longest returns how long a request may wait for a limit, by default as long as with a gate.
func longest(r *policy.LimitResult) time.Duration {
	if r.Request.MaxWait == 0 {
		return 10 * time.Second
	}
	return r.Request.MaxWait
}

// admit counts a request that begins to wait, with 1, or ends it, with -1. It returns false if the queue of the rule is full.
func (e *engine) admit(r *policy.LimitResult, n int) bool {
	all, own := queueKey{rule: r.Rule.Name}, queueKey{rule: r.Rule.Name, key: r.Request.Key, one: true}
	perKey := r.Rule.MaxWaitingPerKey
	if !slices.ContainsFunc(r.Rule.Key, func(p policy.Part) bool { return p.Source != source.Constant }) { // all have one key
		perKey = r.Rule.MaxWaiting
	}
	if n >= 0 && (e.waiting[all] >= r.Rule.MaxWaiting || e.waiting[own] >= perKey) {
		return false
	}
	for _, k := range [...]queueKey{all, own} {
		if e.waiting[k] += n; e.waiting[k] == 0 {
			delete(e.waiting, k)
		}
	}
	return true
}

// begin waits for the next lease, or begins to handle the request. It returns what is known of its outcome.
func (f *flight) begin() outcome {
	e := f.engine
	for ; f.next < len(f.queued); f.next++ {
		r := f.queued[f.next]
		if !r.IsLease() {
			continue
		}
		until := f.began + int64(longest(r)/time.Microsecond)
		if until <= e.now {
			return e.refuse(f, r, f.rec)
		}
		if f.poll() {
			continue
		}
		at := keyOf(r)
		queue := e.queues[at] // in the order in which the store granted the leases
		place, _ := slices.BinarySearchFunc(queue, f.began+1, func(g *flight, began int64) int { return cmp.Compare(g.began, began) })
		e.queues[at] = slices.Insert(queue, place, f)
		e.events.add(until, f, expires)
		o := f.outcome
		o.kind = waiting
		return o
	}
	f.leave()
	f.handled = e.now
	if wait := e.now - f.began; wait > 0 && f.outcome.kind == allowed {
		f.outcome.kind, f.outcome.wait = delayed, wait
	}
	switch {
	case f.service > 0:
		e.events.add(e.now+f.service, f, ends)
	case e.open && len(f.leases) > 0:
		for _, r := range f.leases {
			e.held[keyOf(r)] = append(e.held[keyOf(r)], f)
		}
	default:
		f.finish()
	}
	return f.outcome
}

// poll decides again about the lease that the request waits for. It reports whether the wait is over.
func (f *flight) poll() bool {
	r := f.queued[f.next]
	d, err := f.engine.store.Decide(background, r.Request)
	if err != nil || !d.Allowed {
		return false
	}
	r.Decision.Receipt = d.Receipt
	return d.Delay <= 0
}

// leave takes the request out of the queues of its rules.
func (f *flight) leave() {
	for _, r := range f.queued {
		f.engine.admit(r, -1)
	}
	f.queued, f.next = nil, 0
}

// finish ends a request that was handled: it releases the leases, and settles the costs.
func (f *flight) finish() {
	f.over = true
	latency := max(2*time.Microsecond, time.Duration(f.engine.now-f.handled)*time.Microsecond)
	f.release(func(ctx context.Context, c sluice.Charge) error { return f.engine.store.Release(ctx, c, latency) })
	for i := range f.results {
		r := &f.results[i]
		if !r.Charged() || r.Request.Member != 0 {
			continue
		}
		if actual := r.Actual(f.end); actual != r.Request.Cost {
			_ = f.engine.store.Settle(background, r.Charge(), actual) // a charge that is too old stays, as in a server
		}
	}
}

// undo gives back the charges of a request that is not handled.
func (f *flight) undo() {
	f.over = true
	f.leave()
	f.release(f.engine.store.Cancel)
	for i := range f.results {
		if r := &f.results[i]; r.Request.Member == 0 {
			_ = r.GiveBack(background, f.engine.store) // as in a server
		}
	}
}

// release ends the leases, and lets others have them.
func (f *flight) release(end func(context.Context, sluice.Charge) error) {
	leases := f.leases
	f.leases, f.over = nil, true
	for _, r := range leases {
		_ = end(background, r.Charge()) // a lease that is lost has ended
		r.Returned = true
	}
	for _, r := range leases {
		f.engine.freed(keyOf(r))
	}
}

// freed serves the requests that wait for a lease, in their order.
func (e *engine) freed(at limitKey) {
	queue := e.queues[at]
	if len(queue) == 0 {
		return
	}
	kept := queue[:0]
	var served []*flight
	for _, f := range queue {
		switch {
		case f.over:
		case len(kept) == 0 && f.poll():
			served = append(served, f)
		default:
			kept = append(kept, f)
		}
	}
	if e.queues[at] = kept; len(kept) == 0 {
		delete(e.queues, at)
	}
	for _, f := range served {
		f.next++
		e.resume(f)
	}
}

// resume goes on with a request that waited.
func (e *engine) resume(f *flight) {
	if o := f.begin(); o.kind != waiting {
		e.resolved(f.id, o)
	}
}

// event is what happens to a flight at a time.
type event struct {
	at     int64
	number int64 // events of one time happen in the order in which they were added
	flight *flight
	what   what
}

type what uint8

const (
	begins  what = iota // the delay has passed
	expires             // the wait for a lease is too long
	renews              // the leases are renewed
	ends                // the request has been handled
	returns             // a refused request comes back
)

// events are a heap.
type events struct {
	all    []event
	number int64
}

func (h *events) Len() int { return len(h.all) }
func (h *events) Less(i, j int) bool {
	a, b := &h.all[i], &h.all[j]
	return a.at < b.at || a.at == b.at && a.number < b.number
}
func (h *events) Swap(i, j int) { h.all[i], h.all[j] = h.all[j], h.all[i] }
func (h *events) Push(x any)    { h.all = append(h.all, x.(event)) } //nolint:forcetypeassert // add pushes nothing else
func (h *events) Pop() any {
	last := h.all[len(h.all)-1]
	h.all = h.all[:len(h.all)-1]
	return last
}

func (h *events) add(at int64, f *flight, w what) {
	h.number++
	heap.Push(h, event{at, h.number, f, w})
}

// longestOpen is how long a lease is held at most if the log has no durations.
const longestOpen = int64(time.Hour / time.Microsecond)

// advance lets happen what happens up to a time.
func (e *engine) advance(to int64) {
	for len(e.events.all) > 0 && e.events.all[0].at <= to {
		v := heap.Pop(&e.events).(event) //nolint:forcetypeassert // add pushes nothing else
		f := v.flight
		if f.over {
			continue
		}
		e.now = max(e.now, v.at)
		switch v.what {
		case begins:
			if o := f.begin(); f.pending && o.kind != waiting {
				e.resolved(f.id, o)
			}
		case expires:
			if f.next < len(f.queued) && f.handled == 0 && f.began+int64(longest(f.queued[f.next])/time.Microsecond) <= e.now {
				e.attempt = f.attempt
				e.resolved(f.id, e.refuse(f, f.queued[f.next], f.rec))
			}
		case renews:
			if e.open && f.handled > 0 && e.now-f.handled > longestOpen {
				f.finish()
				continue
			}
			for _, r := range f.leases {
				if d, err := e.store.Decide(background, r.Request); err == nil && d.Allowed {
					r.Decision.Receipt = d.Receipt
				}
			}
			e.events.add(e.now+f.leased, f, renews)
		case ends:
			f.finish()
		case returns:
			e.returned(f)
		}
	}
}
