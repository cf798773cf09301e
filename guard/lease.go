package guard

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// leases remembers who granted the leases that are held, for the time to live of
// each: a request does not tell a renewal from a new lease.
type leases struct {
	seed maphash.Seed
	most int

	mu   sync.Mutex
	held map[leaseID]lease
}

// leaseID tells leases apart: by limit, key and member.
type leaseID struct {
	limit       [2]uint64
	key, member uint64
}

// lease is one that was granted and has neither been released nor ended.
type lease struct {
	by      layer
	receipt sluice.Receipt // unmarked
	delay   time.Duration  // of its place in the queue, as last told
	ends    time.Time
	// sure is when it ends for the store, unless renewed, whatever else happens.
	sure time.Time
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

// full reports whether leases may be held that are not remembered.
func (ls *leases) full() bool { return ls.len() >= ls.most }

// get returns a lease that is held.
func (ls *leases) get(id leaseID, now time.Time) (lease, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, ok := ls.held[id]
	return l, ok && now.Before(l.ends)
}

// sweep is how many leases are looked at with each that is remembered.
const sweep = 4

// put remembers a lease that d granted or renewed, in answer to a question asked at a time.
func (ls *leases) put(id leaseID, r *sluice.Request, d *sluice.Decision, by layer, asked time.Time) {
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
		ls.held[id] = lease{by: by, receipt: receipt, delay: d.Delay, ends: now.Add(ttl), sure: asked.Add(ttl)}
	}
}

// prolong prolongs a lease that is held, as its layer could not be asked.
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

// takesLease reports whether a request is for a lease, or renews one.
func takesLease(r *sluice.Request) bool {
	return r.Member != 0 && r.Cost > 0 && r.Limit != nil && r.Limit.IsConcurrency()
}

// decideLease answers a request for a lease. One that is held is renewed by who granted it.
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
		d, down, err = s.askOne(ctx, r)
		if !renews {
			s.doubt(r, err)
		}
		if !down {
			break
		}
		if renews {
			return s.hold(id, r, held, now), nil
		}
		d, by, err = s.standIn(ctx, r, err)
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

// hold answers the renewal of a lease that the store granted and cannot be asked
// about. Whoever holds it goes on: what runs cannot be undone. Where the ladder says
// Deny, it does so until the store may have given it to another.
func (s *Store) hold(id leaseID, r *sluice.Request, held lease, now time.Time) sluice.Decision {
	ttl := r.Limit.LeaseTTL()
	ends := now.Add(ttl)
	if s.fallbackOf(r.Limit) == Deny {
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

// rememberAll remembers the leases that a batch of the store granted. What stood in for
// it held some of them: those have moved.
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
			_ = s.o.Local.Cancel(ctx, c) // one that is not released ends by itself
		}
		s.leases.put(id, r, &out[i], byStore, now)
	}
}

// grantor returns who granted a charge, and puts it in the terms of that layer.
func (s *Store) grantor(c *sluice.Charge) layer {
	receipt, by := unmark(c.Receipt)
	c.Receipt = receipt
	if c.Limit == nil {
		return byStore
	}
	if c.Member != 0 && c.Limit.IsConcurrency() {
		// A lease that was lost and taken anew may be another layer's.
		held, ok := s.leases.get(s.leases.id(c.Limit, c.Key, c.Member), time.Now())
		if ok && held.by != by {
			by, c.Receipt = held.by, held.receipt
		}
	}
	if by == byLocal {
		if s.o.Local == nil {
			return byNobody // another guard's
		}
		s.localCharge(c)
	}
	return by
}

// ended forgets a lease that has ended. One that could not be released can be
// released again.
func (s *Store) ended(l *sluice.Limit, c *sluice.Charge, err error) {
	if l != nil && c.Member != 0 && l.IsConcurrency() && (err == nil || errors.Is(err, sluice.ErrLeaseLost)) {
		s.leases.drop(s.leases.id(l, c.Key, c.Member))
	}
}

// localCharge puts a charge in the terms of the local version of its limit.
func (s *Store) localCharge(c *sluice.Charge) {
	scaled := s.scaler.limit(c.Limit)
	c.Limit, c.Floor = scaled, s.scaler.floor(c.Limit, scaled, c.Floor)
}
