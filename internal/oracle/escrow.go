package oracle

import (
	"cmp"
	"slices"
)

// The most holders of a key, and the largest demand that counts.
const (
	mostHolders = 250
	mostDemand  = 1e12
)

// Terms are the numbers of the grants of a limit.
type Terms struct {
	Cap       int64 // the most units that may be granted at once
	Overdraft int64 // how far the limit may be exceeded
	Life      int64 // of a grant
	// Numbers is a fresh state of the limit, if its numbers may differ from the numbers that the state is kept under.
	Numbers State
}

// Claim is what a holder reports, returns and wants. driver.Claim documents the fields.
type Claim struct {
	Seq, Birth      uint64
	Till            int64
	Spent, Returned int64
	Take, Floor     int64
	Want, Least     int64
	Demand          int64
}

// Grant is the answer to a Claim. driver.Grant documents the fields.
type Grant struct {
	Stale     bool
	Repeated  bool // the claim was answered before
	Result    Result
	Charge    Charge // what Take took
	Units     int64
	Held      int64
	Birth     uint64
	Now, Till int64
	Free      int64
	Escrow    int64
	Holders   int
	Demands   int64
	Others    bool // exact requests of other processes have taken units lately
}

// Holder is the entry of one holder of a key.
type Holder struct {
	ID, Seq, Birth uint64
	Units          int64 // granted, and neither reported nor returned
	Of             int64 // the capacity that they were granted from, the least if there are several
	Till           int64
	At, Life       int64 // the time of the answer to Seq, and how long after it the entry is kept
	Demand         int64 // zero if not active
	Active         bool  // has units, or wants some
	Answer         Grant // to Seq
}

// Escrow is the state of one key and its holders. Like a State it is a value.
type Escrow struct {
	State   State // what was used, without what is granted
	Holders []Holder
	// Others is the time until which exact requests of other processes count as recent.
	Others int64
}

// forgotten returns when the entry is dropped: at the latest Till that an answer has named, so that a claim which
// comes again is known. If the clock was set back, its age is unknown.
func (h Holder) forgotten(now int64) int64 {
	if h.At > now {
		return h.Till
	}
	return max(h.Till, h.At+h.Life)
}

// recent is how long exact requests of other processes count as recent.
const recent = 1_000_000

// NewEscrow returns the state of a key with no holders.
func NewEscrow(fresh State) Escrow { return Escrow{State: fresh} }

// Units returns how many units are granted and were neither reported nor returned.
func (e Escrow) Units() (sum int64) {
	for _, h := range e.Holders {
		sum += h.Units
	}
	return sum
}

// At returns the escrow at a time: the grants that have expired are booked.
//
// A grant ends at a time that its life bounds, even if the clock was set back. What is left of it then
// counts as used in the last microsecond before. So what is left at the end of a fixed window vanishes
// with the window. The entry stays until the latest end that an answer has named.
func (e Escrow) At(now int64) Escrow { return e.AtTerms(now, Terms{}) }

// AtTerms is At for a request under some terms.
func (e Escrow) AtTerms(now int64, t Terms) Escrow {
	held := slices.Clone(e.Holders)
	for i := range held {
		held[i].Till = min(held[i].Till, now+held[i].Life)
	}
	ended := slices.DeleteFunc(slices.Clone(held), func(h Holder) bool { return h.Till > now || h.Units == 0 })
	slices.SortStableFunc(ended, func(a, b Holder) int { return cmp.Compare(a.Till, b.Till) })
	for _, h := range ended {
		// A state has a later time only if the clock was set back a little.
		e.State = booked(e.State, h.Units, max(h.Till-1, min(latest(e.State), now)), now, t)
	}
	e.Holders = slices.DeleteFunc(held, func(h Holder) bool { return h.forgotten(now) <= now })
	for i := range e.Holders {
		if h := &e.Holders[i]; h.Till <= now {
			h.Units, h.Demand, h.Active = 0, 0, false
		}
	}
	if e.Others = min(e.Others, now+recent); e.Others <= now {
		e.Others = 0
	}
	return e
}

// book returns the state after some units were used at a time, whether or not the limit admits them.
func book(s State, units, at int64) State {
	if units == 0 {
		return s
	}
	after, _ := s.Take(Request{Now: at, Cost: units}, true)
	return after
}

// booked is book under the numbers that the state is kept under. Only requests of a calendar know its
// periods: a state that needs a new period of another calendar takes the numbers of the terms.
func booked(s State, units, at, now int64, t Terms) State {
	if w, ok := s.(Window); ok && w.periods != nil && t.Numbers != nil && !SameNumbers(s, t.Numbers) && (at >= w.end || w.start-at > w.length) {
		s = Renumber(s, t.Numbers, now)
	}
	return book(s, units, at)
}

// under returns the state as the limit with these terms sees it, and whether it is kept under other numbers.
func (e Escrow) under(now int64, t Terms) (State, bool) {
	if t.Numbers == nil || SameNumbers(e.State, t.Numbers) {
		return e.State, false
	}
	return Renumber(e.State, t.Numbers, now), true
}

// Reserved returns what the escrow weighs for the limit with these terms. Units that were granted from a larger capacity
// weigh as the same part of this one, rounded up.
func (e Escrow) Reserved(t Terms) (sum int64) {
	own := e.capacity(t)
	for _, h := range e.Holders {
		sum += weight(h.Units, h.Of, own)
	}
	return sum
}

// weight returns what units of one capacity weigh in another one. It is a little more if scripts cannot multiply them.
func weight(units, of, own int64) int64 {
	switch {
	case of <= own:
		return units
	case own > mostUnits/max(units, 1):
		return Up(Rat(units, of/own))
	}
	return Up(mul(whole(units), Rat(own, of)))
}

// capacity returns the capacity of the limit with these terms.
func (e Escrow) capacity(t Terms) int64 {
	if t.Numbers == nil {
		return capacity(e.State)
	}
	return capacity(t.Numbers)
}

// seen returns the state that a decision sees: with the escrow booked, except for the overdraft. What is left later
// follows from the state as it is kept, if no units are in escrow, or a bucket is kept under a rate that is not lower.
func (e Escrow) seen(r Request, t Terms) State {
	s, other := e.under(r.Now, t)
	units := max(0, e.Reserved(t)-t.Overdraft)
	if other && (units == 0 || keepsRate(e.State, t.Numbers) && r.MaxWait <= 0 && !r.Debit) {
		return renumbered{book(e.State, units, r.Now), t.Numbers}
	}
	return book(s, units, r.Now)
}

// keepsRate reports whether a state is a bucket that refills as fast as under other numbers, or faster.
func keepsRate(s, other State) bool {
	b, ok := s.(Bucket)
	return ok && !less(b.rate, other.(Bucket).rate)
}

// take returns the state after a decision. Only an admission gives it other numbers.
func (e Escrow) take(r Request, allowed bool, t Terms) State {
	s, other := e.under(r.Now, t)
	if other && (r.Cost == 0 || !allowed && !(renumbered{e.State, t.Numbers}).moves(r.Now)) {
		return e.State
	}
	if other && allowed && r.MaxWait <= 0 && e.keeps(t) {
		s = e.State
	}
	after, _ := s.Take(r, allowed)
	return after
}

// keeps reports whether an admission leaves the state under its own numbers: if it is a bucket that is not smaller and
// refills as fast, while units are in escrow that were granted from a larger capacity.
func (e Escrow) keeps(t Terms) bool {
	own := e.capacity(t)
	return slices.ContainsFunc(e.Holders, func(h Holder) bool { return h.Units > 0 && h.Of > own }) &&
		keepsRate(e.State, t.Numbers) && capacity(e.State) >= own
}

// Decide decides an exact request. For a limit without grants, the terms are zero.
func (e Escrow) Decide(r Request, t Terms, guess Result) (Result, Charge, Escrow) {
	e = e.AtTerms(r.Now, t)
	d, c, _ := Decide(e.seen(r, t), r, guess)
	e.State = e.take(r, d.Allowed, t)
	if d.Allowed && r.Cost > 0 && r.MaxWait >= 0 && e.active() > 0 && e.Others-r.Now <= recent/2 {
		e.Others = r.Now + recent
	}
	return d, c, e
}

// Peek decides an exact request and takes nothing.
func (e Escrow) Peek(r Request, t Terms, guess Result) Result {
	return Peek(e.AtTerms(r.Now, t).seen(r, t), r, guess)
}

// Settle replaces the cost of an exact charge.
func (e Escrow) Settle(now int64, c Charge, actual int64) Escrow {
	e = e.At(now)
	e.State = e.State.Settle(now, c, actual)
	return e
}

// Cancel gives an exact charge back.
func (e Escrow) Cancel(now int64, c Charge) Escrow {
	e = e.At(now)
	e.State = e.State.Cancel(now, c)
	return e
}

// Reset forgets what was used. The grants stay.
func (e Escrow) Reset(now int64, fresh State) Escrow {
	e = e.At(now)
	e.State = fresh
	return e
}

// Free returns the units of a limit that are neither used nor granted, rounded down. Granted units count as Reserved
// weighs them. It is negative if the limit is exceeded.
func (e Escrow) Free(now int64, t Terms) int64 {
	s, _ := e.under(now, t)
	return room(s, now) - e.Reserved(t)
}

// Claim reports, returns, decides and grants, in this order.
func (e Escrow) Claim(now int64, id uint64, c Claim, t Terms, guess Result) (Grant, Escrow) {
	e = e.AtTerms(now, t)
	i := slices.IndexFunc(e.Holders, func(h Holder) bool { return h.ID == id })
	if i >= 0 && c.Seq <= e.Holders[i].Seq {
		return e.repeated(now, e.Holders[i], c, t), e
	}
	h := Holder{ID: id}
	if i >= 0 {
		h = e.Holders[i]
	}
	known := h.forgotten(now)
	h.Seq, h.At = c.Seq, now

	// The holder's grant is gone if it has expired, or if the server has lost it. The units of the entry
	// are then of a grant that the holder does not have. An old claim that came again may have made it.
	lost, expired := int64(0), c.Birth != 0 && c.Till <= now
	if expired || c.Birth != h.Birth {
		lost = h.Units
		h.Units = 0
	}
	if !expired { // what has expired is booked
		lost += c.Spent
	}
	if lost > 0 {
		e.State = booked(e.State, lost, now, now, t)
	}
	h.Units -= min(c.Spent, h.Units)
	h.Units -= min(c.Returned, h.Units)
	if h.Units == 0 {
		h.Birth = 0
	}
	if own := e.capacity(t); h.Units == 0 || own < h.Of {
		h.Of = own
	}
	h.Demand, h.Active = 0, h.Units > 0 || c.Want > 0
	if h.Active {
		h.Demand = max(1, min(c.Demand, mostDemand))
	}
	e = e.with(h)

	var g Grant
	if c.Take > 0 {
		r := Request{Now: now, Cost: c.Take, Floor: c.Floor}
		g.Result, g.Charge, _ = Decide(e.seen(r, t), r, guess)
		e.State = e.take(r, g.Result.Allowed, t)
	} else {
		r := Request{Now: now, Cost: max(c.Least, 1), Floor: c.Floor}
		g.Result = Peek(e.seen(r, t), r, guess)
	}
	if len(e.Holders) > mostHolders {
		e = e.without(id)
		return e.answer(g, now, Holder{}, t), e
	}

	promised := int64(0) // the holder spends what it has until then, whatever the clock has done since
	if h.Units > 0 {
		promised = h.Till
	}
	g.Units = e.share(now, h, c, t)
	if g.Units > 0 {
		if s, other := e.under(now, t); !other || !e.keeps(t) {
			e.State = opened(s, now)
		}
		h.Units += g.Units
		h.Birth = cmp.Or(h.Birth, c.Seq)
	}
	s, _ := e.under(now, t)
	h.Till = max(promised, min(now+t.Life, end(s, now)))
	h.Life = max(h.Till, known) - now
	h.Answer = g
	e = e.with(h)
	return e.answer(g, now, h, t), e
}

// repeated answers a claim that was answered before, or that comes after a later one. The verdict stays.
// The numbers are as of now.
func (e Escrow) repeated(now int64, h Holder, c Claim, t Terms) Grant {
	if c.Seq < h.Seq {
		return e.answer(Grant{Stale: true}, now, h, t)
	}
	h.Answer.Repeated = true
	return e.answer(h.Answer, now, h, t)
}

// answer completes an answer with what is true of the key at this time.
func (e Escrow) answer(g Grant, now int64, h Holder, t Terms) Grant {
	g.Now, g.Held, g.Birth, g.Till = now, h.Units, h.Birth, h.Till
	g.Free, g.Escrow, g.Holders, g.Demands = e.Free(now, t), e.Units(), e.active(), e.demands()
	g.Others = e.Others > now
	return g
}

// share returns how many units are granted: as many as are wanted, but at most an equal share of all that
// may be granted, and half of what is free by the share of the demand.
func (e Escrow) share(now int64, h Holder, c Claim, t Terms) int64 {
	least, free := max(c.Least, 1), e.Free(now, t)+t.Overdraft-c.Floor
	if c.Want <= 0 || free <= 0 {
		return 0
	}
	half := Down(mul(Rat(free, 2), Rat(h.Demand, e.demands())))
	q := min(c.Want, t.Cap/int64(e.active())-h.Units, max(least, half), free, t.Cap-e.Reserved(t))
	if q < least {
		return 0
	}
	return q
}

// active returns how many holders share what may be granted.
func (e Escrow) active() (n int) {
	for _, h := range e.Holders {
		if h.Active {
			n++
		}
	}
	return n
}

// demands returns the sum of the demands of all holders.
func (e Escrow) demands() (sum int64) {
	for _, h := range e.Holders {
		sum += h.Demand
	}
	return sum
}

// with returns the escrow with a holder's new entry.
func (e Escrow) with(h Holder) Escrow {
	e.Holders = slices.Clone(e.Holders)
	if i := slices.IndexFunc(e.Holders, func(o Holder) bool { return o.ID == h.ID }); i >= 0 {
		e.Holders[i] = h
	} else {
		e.Holders = append(e.Holders, h)
	}
	return e
}

// without returns the escrow without a holder's entry.
func (e Escrow) without(id uint64) Escrow {
	e.Holders = slices.DeleteFunc(slices.Clone(e.Holders), func(o Holder) bool { return o.ID == id })
	return e
}
