package guard

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// layer is what granted a charge.
type layer uint8

const (
	byStore layer = iota
	byLocal
	byNobody // FallbackAllow
)

// Receipts of algorithms are times in microseconds, or complements of times. So the three
// highest bits of At are equal until the year 75,000. This package flips the second highest bit
// of a receipt from the local store, and the third highest bit of a receipt from FallbackAllow.
const (
	localBit  = 1 << 62
	nobodyBit = 1 << 61
)

// mark returns the receipt of a charge that a layer granted.
func mark(r sluice.Receipt, by layer) sluice.Receipt {
	switch by {
	case byLocal:
		r.At ^= localBit
	case byNobody:
		r.At ^= nobodyBit
	}
	return r
}

// unmark returns the layer that granted the charge of a receipt, and the original receipt.
func unmark(r sluice.Receipt) (sluice.Receipt, layer) {
	sign := r.At >> 63
	switch {
	case (r.At^sign)&localBit != 0:
		r.At ^= localBit
		return r, byLocal
	case (r.At^sign)&nobodyBit != 0:
		r.At ^= nobodyBit
		return r, byNobody
	default:
		return r, byStore
	}
}

// leases remembers during a lease's time to live which layer granted it. A request does
// not show whether it renews a lease.
type leases struct {
	seed maphash.Seed
	most int

	mu   sync.Mutex
	held map[leaseID]lease
}

// leaseID identifies a lease by its limit, key and member.
type leaseID struct {
	limit       [2]uint64
	key, member uint64
}

// lease is a lease that was granted and has neither been released nor expired.
type lease struct {
	by      layer
	receipt sluice.Receipt // unmarked
	delay   time.Duration  // until its turn in the queue, as decided last
	ends    time.Time
	// sure is when it ends in the store without a renewal.
	sure time.Time
	// end is set when its member has called Release or Cancel.
	end *ending
}

func (ls *leases) init(most int) {
	ls.seed, ls.most = maphash.MakeSeed(), most
	ls.held = make(map[leaseID]lease)
}

func (ls *leases) id(l *sluice.Limit, k sluice.Key, member uint64) leaseID {
	return leaseID{l.ID(), maphash.String(ls.seed, k.Text()) ^ uint64(k.Len())*0x9e3779b97f4a7c15, member}
}

func (ls *leases) len() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.held)
}

// full reports whether there may be leases that are not remembered.
func (ls *leases) full() bool { return ls.len() >= ls.most }

// get returns a lease that is held.
func (ls *leases) get(id leaseID, now time.Time) (lease, bool) {
	l, ok := ls.granted(id, now)
	return l, ok && l.end == nil
}

// granted returns a lease that is held, or whose end has failed.
func (ls *leases) granted(id leaseID, now time.Time) (lease, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, ok := ls.held[id]
	return l, ok && now.Before(l.ends)
}

// sweep is how many leases put looks at to drop expired ones.
const sweep = 4

// put remembers a lease that d granted or renewed. The request began at began.
func (ls *leases) put(id leaseID, r *sluice.Request, d *sluice.Decision, by layer, began time.Time) {
	ttl := r.Limit.LeaseTTL()
	receipt, _ := unmark(d.Receipt)
	now := time.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	left := sweep
	for old, l := range ls.held { // in random order
		if left--; left < 0 {
			break
		}
		if !now.Before(l.ends) {
			delete(ls.held, old)
		}
	}
	if _, known := ls.held[id]; known || len(ls.held) < ls.most {
		ls.held[id] = lease{by: by, receipt: receipt, delay: d.Delay, ends: now.Add(ttl), sure: began.Add(ttl)}
	}
}

// prolong prolongs a lease whose layer cannot be called.
func (ls *leases) prolong(id leaseID, ends time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l, ok := ls.held[id]; ok {
		l.ends = ends
		ls.held[id] = l
	}
}

func (ls *leases) drop(id leaseID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.held, id)
}

// takesLease reports whether a request takes or renews a lease.
func takesLease(r *sluice.Request) bool {
	return r.Member != 0 && r.Cost > 0 && r.Limit != nil && r.Limit.IsConcurrency()
}

// decideLease decides a request for a lease. The layer that granted a lease renews it.
func (s *Store) decideLease(ctx context.Context, r *sluice.Request) (d sluice.Decision, err error) {
	now := time.Now()
	id := s.leases.id(r.Limit, r.Key, r.Member)
	held, renews := s.leases.get(id, now)
	by := held.by
	switch {
	case renews && by == byLocal:
		d, err = s.decideLocally(ctx, r, nil)
	case renews && by == byNobody:
		d = s.allow(r)
	default:
		by = byStore
		var down bool
		d, down, err = s.decideOne(ctx, r)
		if !renews {
			s.doubt(r, err)
		}
		if !down {
			break
		}
		if renews {
			return s.hold(id, r, held, now), nil
		}
		d, by, err = s.fallBack(ctx, r, err)
	}
	switch {
	case err != nil || r.Peek:
	case d.Allowed:
		s.leases.put(id, r, &d, by, now)
	case renews:
		s.leases.drop(id)
	}
	return d, err
}

// hold decides the renewal of a lease of the store while the store cannot be called. The member
// keeps the lease, because its work has begun and cannot be undone. With FallbackDeny, it
// keeps the lease only until the store may have granted it to another member.
func (s *Store) hold(id leaseID, r *sluice.Request, held lease, now time.Time) sluice.Decision {
	ttl := r.Limit.LeaseTTL()
	ends := now.Add(ttl)
	if s.fallbackOf(r.Limit) == sluice.FallbackDeny {
		if !now.Before(held.sure) {
			return s.deny(r)
		}
		ends = held.sure
	}
	s.holds.Add(1)
	if !r.Peek {
		s.leases.prolong(id, ends)
	}
	return sluice.Decision{
		Allowed:    true,
		Degraded:   true,
		Limit:      r.Limit.Capacity(),
		Delay:      held.delay,
		ResetAfter: ends.Sub(now),
		Receipt:    held.receipt,
	}
}

// rememberAll remembers the leases that a batch of the store granted. Leases that a fallback
// held before have moved to the store.
func (s *Store) rememberAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) {
	leases, allowed := false, true
	for i := range rs {
		leases = leases || takesLease(&rs[i])
		allowed = allowed && (out[i].Allowed || rs[i].Shadow)
	}
	if !leases {
		return
	}
	now := time.Now()
	for i := range rs {
		r := &rs[i]
		if !takesLease(r) || r.Peek || !out[i].Allowed || !allowed && !r.Shadow {
			continue
		}
		id := s.leases.id(r.Limit, r.Key, r.Member)
		if held, ok := s.leases.get(id, now); ok && held.by == byLocal {
			c := r.Charge(&sluice.Decision{Receipt: held.receipt})
			s.localCharge(&c)
			_ = s.o.Local.Cancel(ctx, c) // otherwise it ends by itself
		}
		s.leases.put(id, r, &out[i], byStore, now)
	}
}

// grantor returns the layer that granted a charge, and turns it into a charge of that layer.
func (s *Store) grantor(c *sluice.Charge) layer {
	receipt, by := unmark(c.Receipt)
	c.Receipt = receipt
	if c.Limit == nil {
		return byStore
	}
	if c.Member != 0 && c.Limit.IsConcurrency() {
		// If the lease was lost and taken again, another layer may have granted it.
		held, ok := s.leases.granted(s.leases.id(c.Limit, c.Key, c.Member), time.Now())
		if ok && held.by != by {
			by, c.Receipt = held.by, held.receipt
		}
	}
	if by == byLocal {
		if s.o.Local == nil {
			return byNobody // granted by another guard
		}
		s.localCharge(c)
	}
	return by
}

// ended drops a lease that has ended. A lease that could not be released can be released
// again.
func (s *Store) ended(l *sluice.Limit, c *sluice.Charge, err error) {
	if l != nil && c.Member != 0 && l.IsConcurrency() && (err == nil || errors.Is(err, sluice.ErrLeaseLost)) {
		s.leases.drop(s.leases.id(l, c.Key, c.Member))
	}
}

// localCharge turns a charge into one under the local version of its limit.
func (s *Store) localCharge(c *sluice.Charge) {
	scaled := s.scaler.limit(c.Limit)
	c.Limit, c.Floor = scaled, s.scaler.floor(c.Limit, scaled, c.Floor)
}

const (
	// mostDoubts bounds how many leases are in doubt. Further leases end by their time to live.
	mostDoubts = 1 << 14
	// firstDoubt is when the guard ends a lease in doubt. A call on its way to the store
	// has arrived by then.
	firstDoubt = time.Second
	lastDoubt  = 2 * time.Second
)

// doubt is a lease that the store may have granted without the caller's knowledge, because the
// reply was late or lost. The guard ends it. Otherwise the store would count it for its whole
// time to live.
type doubt struct {
	store  *Store
	id     leaseID
	charge sluice.Charge
}

// doubt ends a lease that a request may have taken without its caller's knowledge. The member
// did not hold it before. If there are more leases than the guard remembers, the member may
// hold the lease. Then the lease is left to its time to live.
func (s *Store) doubt(r *sluice.Request, err error) {
	if r.Peek || !takesLease(r) || !errors.Is(err, sluice.ErrUnknownOutcome) || s.leases.full() {
		return
	}
	d := &doubt{store: s, id: s.leases.id(r.Limit, r.Key, r.Member), charge: r.Charge(&sluice.Decision{})}
	until := time.Now().Add(r.Limit.LeaseTTL()) // it has ended by itself then
	s.doubts.Start(until, d.settle)
}

// doubtAll calls doubt for the requests of a batch. Leases that members held before are not in
// doubt.
func (s *Store) doubtAll(rs []sluice.Request, err error) {
	if !errors.Is(err, sluice.ErrUnknownOutcome) {
		return
	}
	now := time.Now()
	for i := range rs {
		r := &rs[i]
		if !takesLease(r) {
			continue
		}
		if _, held := s.leases.get(s.leases.id(r.Limit, r.Key, r.Member), now); !held {
			s.doubt(r, err)
		}
	}
}

// settle ends the lease, unless a later request got it. It reports whether nothing is left to
// do.
func (d *doubt) settle() (done bool) {
	if held, ok := d.store.leases.get(d.id, time.Now()); ok && held.by != byStore || !ok && !d.store.leases.full() {
		err := d.store.about(context.Background(), d.charge.Key, func(ctx context.Context, store sluice.Store) error {
			return store.Cancel(ctx, d.charge)
		})
		return err == nil || isAnswer(err)
	}
	return true
}
