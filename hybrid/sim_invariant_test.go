package hybrid

import (
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// check checks that the server has all units in escrow that processes may still spend, or have spent and
// not reported.
func (w *world) check() {
	if w.excused() {
		return
	}
	held := map[sluice.Key]map[uint64]int64{}
	answered := map[sluice.Key]map[uint64]uint64{}
	for _, l := range w.ledgers {
		held[l.key], answered[l.key] = map[uint64]int64{}, map[uint64]uint64{}
		for _, h := range w.server.Escrow(w.limit, l.key).At(w.serverTime()).Holders {
			held[l.key][h.ID], answered[l.key][h.ID] = h.Units, h.Seq
		}
	}
	for _, n := range w.nodes {
		id := uint64(n.number + 1)
		n.store.table.each(func(e *entry) {
			e.lock()
			defer e.unlock()
			h := &e.hand
			held, answered := held[e.key], answered[e.key]
			if h.left < 0 || h.placed < h.left {
				w.fail("process %d has %d units in hand, of %d", n.number, h.left, h.placed)
			}
			if h.birth == 0 || h.left == 0 || !n.store.clock.now().before(h.deadline) {
				return
			}
			open := h.left + h.unreported()
			if q := e.open; q != nil && w.numberOf(n, q.claim) > answered[id] {
				open += q.claim.Spent
			}
			// What was spent on credit while a claim was on its way may be more than the claim was granted.
			if open > held[id]+w.limit.Hybrid().Credit {
				w.fail("process %d has %d units that it has not reported, and %d are in escrow", n.number, open, held[id])
			}
		})
	}
}

// numberOf returns the number of a claim as the server gets it.
func (w *world) numberOf(n *node, c driver.Claim) uint64 {
	if w.trick != numbersRetries {
		return c.Seq
	}
	n.link.mu.Lock()
	defer n.link.mu.Unlock()
	return c.Seq<<8 + n.link.attempts[c.Seq] - 1
}

// explain checks that a denial has a reason: the limit has no more left than the bound on units that stay
// unused. The world is locked.
func (w *world) explain(r *sluice.Request, d *sluice.Decision) {
	if !w.calm() || d.Reason != sluice.ReasonLimited || w.corrected(r.Key) {
		return
	}
	ago := 6*w.weather.trip.Microseconds() + 1000
	held := float64(w.limit.Rate().Count()) / w.limit.Rate().Period().Seconds() * float64(longestDenial) / 1e9
	if _, log := w.limit.Algorithm().(sluice.SlidingLog); log {
		// The log has counted a unit in the period before the denial, so it was spent in that period and the time until
		// its report: the process looks at an entry four times in a sync, and first after one sync.
		ago += longestDenial/1000 + w.limit.Hybrid().Sync.Microseconds()*(ticks+1)/ticks
		held = 0
	}
	free := w.ledger(r.Key).plain.left(w.serverTime(), ago)
	most := w.limit.Escrow() + int64(held) + 1
	if free >= r.Cost+r.Floor+most {
		most += w.expired() // the server has counted them as used
	}
	if free >= r.Cost+r.Floor+most {
		w.fail("a request for %d above %d is denied, although %d units are left and at most %d may stay unused", r.Cost, r.Floor, free, most)
	}
}

// expired returns how many units expired in hand so far, because calls took as long as a grant lives.
func (w *world) expired() (units int64) {
	for _, n := range w.nodes {
		for _, st := range n.store.Stats() {
			units += int64(st.Expired)
		}
	}
	return units
}

// calm reports whether nothing goes wrong in this world, and its bound is exact. The bound does not count
// debits that were denied. Grants that live no longer than two round trips expire on their way.
func (w *world) calm() bool {
	x := w.weather
	if len(w.faults) > 0 || w.others > 0 || w.debits || x.lostBefore+x.lostAfter+x.refused+x.slow > 0 ||
		w.life() < 4*x.trip {
		return false
	}
	switch a := w.limit.Algorithm().(type) {
	case sluice.TokenBucket, sluice.SlidingLog:
		return true
	case sluice.FixedWindow:
		return !a.Opened
	}
	return false
}

// heal ends all faults and checks that the processes use the limit again.
func (w *world) heal() {
	h := w.limit.Hybrid()
	for _, n := range w.nodes {
		n.link.set(func(l *link) {
			l.weather = weather{trip: w.weather.trip}
			l.deaf, l.mute, l.paused = time.Time{}, time.Time{}, time.Time{}
		})
	}
	if used := w.used(); len(used) > 1 || used[0] != w.limit {
		w.changeBack()
	} else {
		pass(h.Life + h.Sync)
	}
	if !w.failed() && w.seed%4 == 0 {
		w.recover()
	}
}

// changeBack lets all processes use the first limit, while their requests go on.
func (w *world) changeBack() {
	w.mu.Lock()
	for _, n := range w.nodes {
		n.mu.Lock()
		n.limit = w.limit
		n.mu.Unlock()
	}
	w.changed()
	w.mu.Unlock()
	until := time.Since(w.began) + w.life() + w.limit.Hybrid().Sync
	var all sync.WaitGroup
	for _, n := range w.nodes {
		all.Go(func() { w.run(n, w.load, until) })
	}
	all.Wait()
}

// recover checks the use of the limit while all processes request twice as much as it gives. What was counted
// before leaves the limit first.
func (w *world) recover() {
	r, h := w.limit.Rate(), w.limit.Hybrid()
	perSecond := float64(r.Count()) / r.Period().Seconds()
	if r.Period() > time.Hour || w.has(jump) || w.cost > 1 || w.floors || w.debits || perSecond > 1200 || w.keys > 1 || w.corrections {
		return
	}
	if w.weather.slow+w.weather.twice > 0 {
		pass(5 * time.Second) // claims of the bad time still arrive, and are booked
	}
	pass(2*max(r.Period(), w.other.Rate().Period()) + h.Life + w.refill())
	began := time.Since(w.began)
	w.mu.Lock()
	before := w.admitted
	w.mu.Unlock()
	const length = 1200 * time.Millisecond
	var all sync.WaitGroup
	for _, n := range w.nodes {
		all.Go(func() { w.run(n, load{total: 2 * perSecond, period: time.Second}, began+length) })
	}
	all.Wait()
	pass(4 * w.weather.trip)
	w.mu.Lock()
	used := w.admitted - before
	w.mu.Unlock()
	// Each window, and the bucket once, may leave unused what may be granted. A window that has begun before,
	// or has not ended, may admit nothing. The counter gives less while the window before weighs.
	periods := length.Seconds() / r.Period().Seconds()
	if a, cells := w.limit.Algorithm().(sluice.SlidingWindow); cells {
		// The cell that leaves counts too: units leave a window of n cells with n+1 cells.
		periods *= float64(a.Cells) / float64(a.Cells+1)
	}
	least := perSecond * length.Seconds() * 0.9
	switch w.limit.Algorithm().(type) {
	case sluice.TokenBucket:
		least -= float64(w.limit.Escrow())
	case sluice.SlidingCounter:
		least = (periods - 1) * float64(w.limit.Capacity()-w.limit.Escrow()) * 0.7
	default:
		least = (periods - 1) * float64(w.limit.Capacity()-w.limit.Escrow()) * 0.9
	}
	if float64(used) < least {
		w.fail("after all faults, the processes use %d units in %v, and at least %.0f are expected", used, length, least)
	}
}

// refill returns how long a bucket may need until it has what was used under other numbers again: it refills at the
// higher of both rates.
func (w *world) refill() time.Duration {
	if _, ok := w.limit.Algorithm().(sluice.TokenBucket); !ok || w.others == 0 && !w.has(change) {
		return 0
	}
	rate := 0.0
	for _, l := range []*sluice.Limit{w.limit, w.other} {
		rate = max(rate, float64(l.Rate().Count())/l.Rate().Period().Seconds())
	}
	return time.Duration(float64(w.other.Capacity()) / rate * float64(time.Second))
}

// end checks what must hold in the end.
func (w *world) end() {
	if w.failed() {
		return
	}
	over, worst := int64(0), int64(0)
	w.mu.Lock()
	for _, l := range w.ledgers {
		worst = max(worst, l.worst)
	}
	w.mu.Unlock()
	for _, n := range w.nodes {
		for _, st := range n.store.Stats() {
			over = max(over, st.Over)
		}
	}
	// A store cannot show the credit of processes that the server has no entries of. The credit of all processes
	// bounds what they admit all the same.
	alone := w.limit.Hybrid().Credit == 0 || w.scenario.nodes == 1
	if alone && w.others == 0 && !w.has(failover, restarting, jump, change, crash) && worst > over {
		w.fail("the limit was exceeded by %d units, and the largest bound that a store shows is %d", worst, over)
	}
	for _, n := range w.nodes {
		w.balance(n)
		n.link.mu.Lock()
		claims, empty := n.link.claims, n.link.empty
		n.link.mu.Unlock()
		if most := w.keys * (2*int(time.Since(w.began)/w.limit.Hybrid().Sync) + 10); empty > most {
			w.fail("process %d sends %d claims of %d that bring nothing; at most %d are expected", n.number, empty, claims, most)
		}
	}
}

// balance checks that a process accounts for all units: what it was granted was spent, returned, expired, lost,
// or is in hand.
func (w *world) balance(n *node) {
	if w.injected || w.limit.Hybrid().Credit > 0 || w.has(failover, restarting, jump, crash) {
		return // units were spent that were not granted, or not to this process
	}
	for _, st := range n.store.Stats() {
		have, owe := st.Granted, st.Spent+st.Returned+st.Expired+st.Lost+uint64(st.Unspent+st.Unreported)
		if have != owe {
			w.fail("process %d was granted %d units, but accounts for %d: %+v", n.number, have, owe, st)
		}
	}
}
