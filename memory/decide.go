package memory

import (
	"context"
	"math"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/prefetch"
	"github.com/sluicehq/sluice/internal/translate"
)

// Decide decides one request. The error is a *sluice.RequestError or sluice.ErrClosed. Decide does not allocate for
// limits whose state has a fixed size.
func (s *Store) Decide(_ context.Context, r sluice.Request) (d sluice.Decision, err error) {
	if err := r.Check(); err != nil {
		return d, err
	}
	v := s.versions.cached(r.Limit)
	if v == nil {
		v = s.version(r.Limit)
	}
	if !v.inline || r.Peek || r.Ban != nil || r.Overdraw || r.Hold > 0 {
		return s.decideSlow(&r)
	}
	a := s.decideFast(v, r.Key, r.Cost, r.Floor, translate.MaxWait(r.MaxWait), r.Debit, &d)
	if a.key == 0 {
		return d, nil
	}
	return s.decideAbsent(v, a, &r)
}

// Take decides a request for cost units and nothing else. See driver.Taker.
// Errors are as in Decide.
func (s *Store) Take(ctx context.Context, l *sluice.Limit, k sluice.Key, cost int64) (d sluice.Decision, err error) {
	if l != nil && cost >= 0 {
		v := s.versions.cached(l)
		if v != nil && v.inline {
			a := s.decideFast(v, k, cost, 0, 0, false, &d)
			if a.key == 0 {
				return d, nil
			}
			return s.decideAbsent(v, a, &sluice.Request{Limit: l, Key: k, Cost: cost})
		}
	}
	return s.Decide(ctx, sluice.Request{Limit: l, Key: k, Cost: cost})
}

// Fetch begins to load the state of a limit's key from memory into the processor. See driver.Fetcher.
func (s *Store) Fetch(l *sluice.Limit, k sluice.Key) {
	key := s.hashKey(l.ID(), k)
	t := s.stripeOf(key).table.Load()
	prefetch.Lines(&t.entries[t.home(key)])
}

// absent is what decideFast has computed about a key that it has not found: both halves of its
// identity, and the time, or zero.
type absent struct {
	key, tag uint64
	now      int64
}

// decideFast decides a request if the published table has an entry for its key, with the request's
// version and an inline state. It locks only that entry. It returns an absent key if the stripe must
// be locked, and otherwise zero.
func (s *Store) decideFast(v *version, k sluice.Key, cost, floor, maxWait int64, debit bool, d *sluice.Decision) absent {
	key := s.hashKey(v.id, k)
	sp := s.stripeOf(key)
	t := sp.table.Load()
	entries := t.entries
	i := t.home(key)
	prefetch.Lines(&entries[i]) // they arrive while the clock is read
	tag := s.hashTag(v, k)
	req := algo.Request{Cost: cost, Floor: floor, MaxWait: maxWait, Debit: debit}
	if s.clockFunc == nil {
		req.Now = s.clock.now() // before the entry is locked, to hold the lock for less time
	}
	i = t.first(i, key)
	for entries[i].tag.Load()&^lockBit != tag {
		if i++; entries[i].key.Load() != key {
			return absent{key, tag, req.Now}
		}
	}
	e := &entries[i]
	if !e.lock(tag) {
		return absent{key, tag, req.Now}
	}
	if sp.frozen.Load() || e.key.Load() != key || v.retired.Load() {
		// The entry may have moved since then: it has another tag in that case.
		e.tag.CompareAndSwap(tag|lockBit, tag)
		return absent{key, tag, req.Now}
	}
	if b := v.bucket; b != nil && floor|maxWait == 0 && s.clockFunc == nil {
		if next, short, plain := b.Take(e.state, req.Now, cost); plain && (short == 0 || !debit) {
			if short == 0 {
				e.state = next
				d.Allowed = true
				d.Receipt.At = next.T
			} else {
				d.Reason = sluice.ReasonLimited
				d.RetryAfter = translate.Duration(b.Wait(short))
			}
			d.Limit = b.Burst
			d.Remaining = b.Held(next)
			d.ResetAfter = translate.Duration(b.Full(next))
			s.leave(sp, e, tag, req.Now)
			return absent{}
		}
	}
	if s.clockFunc != nil || req.Now < v.params.LatestState(e.state) {
		req.Now = s.now()
	}
	var res algo.Result
	next := v.params.DecideState(e.state, &req, &res)
	if next != e.state {
		e.state = next
	}
	translate.Fill(d, v.params, &res)
	s.leave(sp, e, tag, req.Now)
	return absent{}
}

// leave unlocks the entry, and does upkeep if it is due. Callers write out the decision first:
// unlocking waits for earlier writes, and the caller of the store reads the decision at once.
func (s *Store) leave(sp *stripe, e *entry, tag uint64, now int64) {
	e.unlock(tag)
	if now >= sp.nextUpkeep.Load() {
		sp.tryUpkeep(now)
	}
}

// decideAbsent decides a request that decideFast could not decide, with the stripe locked.
func (s *Store) decideAbsent(v *version, a absent, r *sluice.Request) (d sluice.Decision, err error) {
	p := location{a.key, a.tag, v, s.stripeOf(a.key)}
	ok, err := s.lockAt(&p)
	switch {
	case err != nil:
		return d, err
	case !ok:
		return s.decideSlow(r)
	}
	sp := p.stripe
	e := sp.lookup(&p)
	req := translate.Request(r)
	// The time of a new key may be earlier than now, but not than a state that was given up: this
	// may have been the key's own.
	if req.Now = a.now; e != nil || a.now < sp.gaveUp || a.now == 0 {
		req.Now = s.now()
	}
	sp.worked = 0
	if e == nil {
		d = sp.decideNew(&p, false, &req)
	} else {
		d = sp.decideFound(v, e, false, &req)
	}
	tend := sp.afterwards(req.Now)
	sp.unlock()
	if tend {
		s.tend(sp, req.Now)
	}
	return d, nil
}

// decideSlow decides any request with the stripe locked.
func (s *Store) decideSlow(r *sluice.Request) (d sluice.Decision, err error) {
	p, now, err := s.lock(r.Limit, r.Key)
	if err != nil {
		return d, err
	}
	req := translate.Request(r)
	req.Now = now
	sp := p.stripe
	sp.worked = 0
	if r.Hold > 0 {
		sp.giveBackDue(now, math.MaxInt)
	}
	d = sp.decide(&p, r, &req)
	sp.hold(&p, r, &d, now)
	tend := !r.Peek && sp.afterwards(now)
	sp.unlock()
	if tend {
		s.tend(sp, now)
	}
	return d, nil
}

// afterwards does upkeep after a decision, if it is due, and reports whether it did. While keys move
// to another table, requests for keys that have been moved come here.
func (sp *stripe) afterwards(now int64) bool {
	if sp.worked > 0 || sp.old == nil && now < sp.nextUpkeep.Load() {
		return false
	}
	sp.scheduleUpkeep(now)
	sp.upkeep(now)
	return true
}

// decide decides one request with the stripe locked.
func (sp *stripe) decide(p *location, r *sluice.Request, req *algo.Request) sluice.Decision {
	if r.Ban != nil {
		return sp.decideBan(p, p.ban(), r, req)
	}
	return sp.decideLimit(p, r.Peek, req)
}

// decideLimit decides one request without regard to bans.
func (sp *stripe) decideLimit(p *location, peek bool, req *algo.Request) sluice.Decision {
	e := sp.lookup(p)
	if e == nil {
		return sp.decideNew(p, peek, req)
	}
	return sp.decideFound(p.v, e, peek, req)
}

// decideFound decides from an entry of any version. A denial leaves a state that was written under
// other numbers as it is: no later decision under these numbers can distinguish it from a request
// that was never made. A debit that is denied is booked under the numbers of the state.
func (sp *stripe) decideFound(v *version, e *entry, peek bool, req *algo.Request) sluice.Decision {
	if e.version() != v.index {
		if peek || req.Cost == 0 {
			return sp.peekOther(v, e, req)
		}
		// A limit that was made again, or loaded, has the same numbers.
		if from := sp.store.versions.at(e.version()); v.params.Equal(from.params) {
			sp.adopt(v, from, e)
			return sp.decideEntry(v, e, peek, req)
		}
		if !sp.moves(v, e, req.Now) {
			switch d := sp.peekOther(v, e, req); {
			case d.Allowed:
			case req.Debit && !sp.fresh(e, req.Now):
				return sp.debitOther(v, e, req)
			case req.Debit: // nothing is lost by a conversion
			default:
				return d
			}
		}
		if !sp.convert(v, e, req.Now) {
			return noRoom(v)
		}
	}
	return sp.decideEntry(v, e, peek, req)
}

// decideEntry decides from an entry of the request's own version.
func (sp *stripe) decideEntry(v *version, e *entry, peek bool, req *algo.Request) sluice.Decision {
	switch {
	case peek:
		return sp.peekEntry(v, e, req)
	case !v.params.Inline():
		if !sp.ensureBlock(v.params, e, req.Now, false) {
			return noRoom(v)
		}
		res := v.params.DecideWords(sp.words(e), *req, true)
		return translate.Decision(v.params, &res)
	}
	var res algo.Result
	next := v.params.DecideState(e.state, req, &res)
	if next != e.state {
		e.state = next
	}
	return translate.Decision(v.params, &res)
}

// peekEntry decides from an entry of the request's own version and writes nothing.
func (sp *stripe) peekEntry(v *version, e *entry, req *algo.Request) sluice.Decision {
	var w []uint64
	switch {
	case v.params.Inline():
	case e.state.T == 0:
		least, _ := v.params.Words()
		w = make([]uint64, least)
	default:
		w = sp.words(e)
	}
	return peekState(v, e.state, w, req)
}

// peekOther decides from an entry that was written under other numbers, and does not change it.
func (sp *stripe) peekOther(v *version, e *entry, req *algo.Request) sluice.Decision {
	other := algo.Replica{Params: sp.store.versions.at(e.version()).params, State: e.state}
	if !v.params.Inline() {
		if e.state.T == 0 {
			return sp.peekEntry(v, &entry{}, req)
		}
		other.Words = sp.words(e)
	}
	return peekReplica(&other, v, req)
}

// debitOther charges a debit that was denied to an entry that was written under other
// numbers. A conversion of the state would count earlier units as of now, and let them go with the
// windows of these numbers. A log drops what decides nothing under its own numbers. If the request would
// pass then, its denial is the one before the debit.
func (sp *stripe) debitOther(v *version, e *entry, req *algo.Request) sluice.Decision {
	plain := *req
	plain.Debit = false
	before := sp.peekOther(v, e, &plain)
	from := sp.store.versions.at(e.version()).params
	debit := algo.Request{Now: req.Now, Cost: req.Cost, Debit: true}
	if from.Inline() {
		e.state = from.DecideState(e.state, &debit, new(algo.Result))
	} else {
		if !sp.ensureBlock(from, e, req.Now, false) {
			return noRoom(v)
		}
		from.DecideWords(sp.words(e), debit, true)
	}
	if after := sp.peekOther(v, e, &plain); !after.Allowed {
		return after
	}
	return before
}

// peekState decides from a state, or from words, and writes nothing.
func peekState(v *version, s algo.State, w []uint64, req *algo.Request) sluice.Decision {
	var res algo.Result
	v.params.Peek(s, w, req, &res)
	return translate.Decision(v.params, &res)
}

// decideNew decides for a key that has no entry, and adds one if the new state differs from a
// fresh one.
func (sp *stripe) decideNew(p *location, peek bool, req *algo.Request) sluice.Decision {
	if peek || req.Cost == 0 {
		return sp.peekEntry(p.v, &entry{}, req)
	}
	if !p.v.params.Inline() {
		e := sp.add(p, req.Now, false)
		if e != nil && !sp.ensureBlock(p.v.params, e, req.Now, false) {
			sp.remove(p)
			e = nil
		}
		if e == nil {
			return sp.decideFull(p, req)
		}
		return sp.decideEntry(p.v, e, false, req)
	}
	var res algo.Result
	state := p.v.params.DecideState(algo.State{}, req, &res)
	if state != (algo.State{}) {
		e := sp.add(p, req.Now, false)
		if e == nil {
			return sp.decideFull(p, req)
		}
		e.state = state
	}
	return translate.Decision(p.v.params, &res)
}

// noRoom denies for lack of memory.
func noRoom(v *version) sluice.Decision {
	return sluice.Decision{Reason: sluice.ReasonTableFull, Limit: v.params.Capacity, RetryAfter: time.Second}
}

// decideFull decides for a new key when there is no room for it.
func (sp *stripe) decideFull(p *location, req *algo.Request) sluice.Decision {
	sp.shared++
	if sp.store.denyWhenFull {
		return noRoom(p.v)
	}
	o := sp.store.overflow(p)
	e := sp.sharedEntry(&o, req.Now)
	if e == nil {
		return noRoom(p.v)
	}
	d := sp.decideFound(o.v, e, false, req)
	d.Overflow = true
	if d.Allowed {
		d.Receipt.At = ^d.Receipt.At // marks a charge to the shared state
	}
	return d
}

// sharedEntry returns the entry of the state that new keys of a limit share. The state may be under
// other numbers.
func (sp *stripe) sharedEntry(o *location, now int64) *entry {
	e := sp.lookup(o)
	if e == nil {
		if e = sp.add(o, now, true); e == nil {
			return nil
		}
	} else if e.version() != o.v.index {
		return e
	}
	if !o.v.params.Inline() && !sp.ensureBlock(o.v.params, e, now, true) {
		return nil
	}
	return e
}
