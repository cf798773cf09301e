package hybrid

import (
	"errors"
	"math"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// openClaim is a claim on its way, or a claim whose answer was lost. Such a claim is frozen: it is
// repeated unchanged until it is answered, because it may have been handled.
type openClaim struct {
	entry  *entry
	claim  driver.Claim
	sent   instant       // when the last attempt began
	done   chan struct{} // closed at the end of the last attempt
	flying bool          // an attempt is on its way
	again  int64         // when to repeat it, by the monotonic clock
	tries  int
	resets uint32 // of the entry, when the claim was made
}

// Pauses before a claim is repeated.
const (
	firstRepeat = 50 * int64(time.Millisecond)
	lastRepeat  = int64(time.Second)
)

// purpose is what a claim is made for.
type purpose struct {
	take, floor int64 // a request
	all         bool  // return all units in hand, and want none
}

// claim makes the claim of an entry that is locked and has none.
func (s *Store) claim(e *entry, now instant, p purpose) *openClaim {
	h := &e.hand
	e.count(now.mono)
	q := &openClaim{entry: e, sent: now, done: make(chan struct{}), flying: true, resets: e.resets}
	c := &q.claim
	*c = driver.Claim{
		Limit: e.limit, Key: e.key, Seq: s.seq.Add(1), Birth: h.birth, Till: h.till,
		Spent: h.unreported(), Take: p.take, Floor: p.floor,
	}
	// A request that needs the units in hand too gets them back first.
	needed := p.take > 0 && p.take+p.floor > e.seen.free
	if h.birth != 0 && (p.all || needed || e.changed || !now.before(h.deadline)) {
		c.Returned, h.left = h.left, 0
	}
	h.placed = h.left
	e.changed = false
	if !p.all {
		c.Demand = int64(min(e.demand.now(e.units, now.mono, e.terms.sync)*1e12, 1<<50))
		s.want(e, c, now.mono)
	}
	e.due = now.mono + e.terms.sync
	e.low = math.MinInt64
	e.open, e.stamp = q, c.Seq<<1
	return q
}

// want sets how many units a claim wants.
func (s *Store) want(e *entry, c *driver.Claim, now int64) {
	v, h := e.terms, &e.hand
	c.Least = e.demand.cost()
	// The units must last until the answer to the next claim: for one synchronisation, this call and the next call.
	last := float64(v.sync + 2*s.trip.slowest())
	full := int64(math.Ceil(e.demand.now(e.units, now, v.sync) * last))
	if h.birth == 0 {
		if full <= h.left {
			return // the credit is enough
		}
		full = max(full, c.Least)
	} else {
		full -= h.left
	}
	if e.pace.rate > 0 {
		full = min(full, e.pace.accrue(now, v.longest, c.Least))
	} else {
		e.pace.last = now
	}
	if !e.hot || full < 1 {
		return
	}
	c.Want = max(full, c.Least)
	if e.pace.rate > 0 && full < c.Least {
		c.Want = 0
	}
}

// answer handles the end of an attempt.
func (s *Store) answer(q *openClaim, g *driver.Grant) {
	now := s.clock.now()
	e := q.entry
	e.lock()
	q.flying = false
	close(q.done)
	switch {
	case e.dead:
	case g.Err != nil && (q.tries > 0 || errors.Is(g.Err, sluice.ErrUnknownOutcome)):
		q.tries++
		pause := min(firstRepeat<<min(q.tries-1, 10), lastRepeat)
		q.again = now.mono + pause - int64(float64(pause)*s.random()/4)
	case g.Err != nil:
		e.takeBack(q)
		e.due = now.mono + e.terms.sync
	case g.Stale:
		e.takeBack(q)
		s.skip(g.Now)
	default:
		e.open = nil
		s.settle(e, q, g, now)
	}
	if !e.idle() || e.hot {
		s.wake(e)
	}
	e.unlock()
}

// takeBack undoes a claim that was not handled.
func (e *entry) takeBack(q *openClaim) {
	e.open = nil
	h := &e.hand
	h.left += q.claim.Returned
	h.placed += q.claim.Returned + q.claim.Spent
}

// settle changes the entry by an answer of the store.
func (s *Store) settle(e *entry, q *openClaim, g *driver.Grant, now instant) {
	c, h := &q.claim, &e.hand
	e.counts.granted += uint64(g.Units)
	e.counts.returned += uint64(c.Returned)
	since := h.unreported() // spent since the claim was made
	switch {
	case c.Birth == 0:
		e.begin(c, g, since)
	case g.Birth == c.Birth || h.placed == 0 && (c.Till > g.Now || c.Spent <= h.held):
		e.counts.spent += uint64(c.Spent)
		e.proceed(c, g, since)
	default:
		e.counts.spent += uint64(c.Spent)
		e.lose(c, g, since)
	}
	switch {
	case h.birth == 0:
		h.till = 0
		if h.deadline == never {
			break
		}
		h.deadline = instant{}
		if credit := e.terms.credit; credit > 0 && h.placed == 0 && g.Free >= 0 && !s.draining.Load() {
			*h = hand{left: credit, placed: credit, deadline: never}
		}
	case g.Birth == 0: // what is in hand is spent, and has to be reported
		h.till, h.deadline = c.Till, instant{}
	case c.Limit != e.limit && !same(c.Limit, e.limit):
		e.changed, h.till, h.deadline = true, g.Till, instant{}
	default:
		left := max(0, g.Till-g.Now) * 1000
		h.till, h.deadline = g.Till, q.sent.plus(left-margin(left))
	}
	s.learn(e, q, g, now)
}

// begin handles the answer to a claim that was made without a grant in hand. What was spent on
// credit since the claim was made is paid with granted units.
func (e *entry) begin(c *driver.Claim, g *driver.Grant, since int64) {
	h := &e.hand
	e.counts.credit += uint64(c.Spent)
	switch {
	case g.Birth != 0:
		e.take(c, g, since)
	case h.deadline != never:
	case g.Free >= 0:
		h.left += c.Spent
		h.placed += c.Spent
	default: // the credit ends until the store has units again
		*h = hand{placed: since}
	}
}

// proceed handles the answer to a claim whose grant goes on, or whose units were all spent.
func (e *entry) proceed(c *driver.Claim, g *driver.Grant, since int64) {
	h := &e.hand
	if g.Units > 0 {
		floor := max(c.Floor, g.Free)
		if h.left > 0 {
			floor = min(h.floor, floor)
		}
		h.floor = floor
	}
	h.birth, h.held = g.Birth, g.Held
	h.left += g.Units
	missing := h.left + since - g.Held
	if missing > 0 { // the store has lost a part
		lost := min(missing, h.left)
		h.left -= lost
		e.counts.lost += uint64(lost)
		missing = 0
	}
	// The store may have lost a report. What it still has in escrow counts as spent.
	h.placed = h.left + since - missing
	e.counts.extra += uint64(-missing)
}

// lose handles the answer to a claim whose grant the store no longer has.
func (e *entry) lose(c *driver.Claim, g *driver.Grant, since int64) {
	h := &e.hand
	e.stamp |= 1
	switch {
	case c.Till <= g.Now:
		// The store has counted as used what it had in escrow, and nothing that was spent on credit
		// beyond it.
		e.counts.expired += uint64(h.placed)
		since = max(0, c.Spent+since-h.held)
	case g.Birth == 0 && since > 0: // the next claim reports what was spent since
		e.counts.lost += uint64(h.left)
		*h = hand{placed: since, birth: c.Birth}
		return
	default:
		e.counts.lost += uint64(h.placed)
	}
	e.take(c, g, since)
}

// take takes a first grant in hand. It pays what was spent before. Units of an earlier process with
// the number of this holder count as spent.
func (e *entry) take(c *driver.Claim, g *driver.Grant, spent int64) {
	h := &e.hand
	*h = hand{left: max(0, g.Units-spent), birth: g.Birth, held: g.Held, floor: max(c.Floor, g.Free)}
	h.placed = h.left + spent + max(0, g.Held-g.Units)
	if g.Birth != 0 { // otherwise the next claim reports them as spent on credit
		e.counts.extra += uint64(h.placed - g.Units)
	}
}

// learn draws conclusions from an answer.
func (s *Store) learn(e *entry, q *openClaim, g *driver.Grant, now instant) {
	c, v, h := &q.claim, e.terms, &e.hand
	n := &e.seen
	if n.since == 0 || c.Birth != h.birth {
		n.since = now.mono
	}
	n.offset = g.Now - now.mono/1000 // so that a local charge is not dated ahead of the server's time
	n.free, n.escrow, n.holders = g.Free, g.Escrow, g.Holders
	n.resetAt = now.mono + int64(g.Decision.ResetAfter) + int64(float64(g.Units)/v.rate)
	e.synced(q, g, now)
	demand := e.demand.now(e.units, now.mono, v.sync)
	share := v.escrow / int64(max(1, g.Holders))
	e.low = math.MinInt64
	if h.birth != 0 {
		e.low = min(int64(demand*float64(2*s.trip.slowest())), share/2, h.left)
	} else if h.deadline == never {
		e.low = v.credit
	}
	if !e.hot || q.resets != e.resets {
		return
	}
	cost, floor := c.Take, c.Floor
	if cost == 0 {
		cost = max(1, c.Least)
	}
	e.rivals = 0
	if g.Others && float64(g.Free) <= 2*v.reserve {
		// Exact requests take what comes free. If all requests are exact, they have the same chance.
		e.rivals = now.mono + v.sync
		e.exact, e.pace, e.denial = e.rivals, pace{}, denial{}
		e.deniedBy(&g.Decision, cost, floor, now.mono, s.random())
		return
	}
	e.deniedBy(&g.Decision, cost, floor, now.mono, s.random())
	if c.Want > 0 && g.Units == 0 && g.Free-c.Floor >= c.Least {
		// There are units, but other processes have in hand what may be granted, or the grants
		// would be too small: requests are exact for a while.
		e.exact, e.pace = now.mono+v.sync/ticks, pace{}
		if share < c.Least {
			e.exact = now.mono + max(v.sync, exactFor)
		}
		return
	}
	pause := e.pace.follow(v, c, g, demand, now.mono)
	if reset := int64(g.Decision.ResetAfter); reset > 0 {
		pause = min(pause, reset) // a new window has all its units at once
	}
	if pause > 0 {
		e.pace.until = now.mono + pause - int64(float64(pause)*s.random()/8)
	} else {
		e.pace.until = 0
	}
}

// exactFor is how long requests for a key are exact if the grants of the key would be too small.
const exactFor = int64(time.Second)
