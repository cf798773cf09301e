package memory

import "time"

const (
	firstSize = 8
	// A table grows by three quarters, or at least by one, when it is seven eighths full. If it may
	// not grow, it is filled to nine tenths; shared states may use half of the rest.
	loadNum, loadDen = 7, 8
	fullNum, fullDen = 9, 10
	lastNum, lastDen = 19, 20
	// A table that is four fifths full is crowded: its fresh states make room for new keys.
	crowdNum, crowdDen = 4, 5
	// An operation that adds a key, or does upkeep, moves moveEntries entries of the old table.
	moveEntries = 64
	// A sweep goes through sweepEntries entries. In a crowded table, a new key sweeps nearEntries
	// entries at its home, if the first half is full, and removes nearMost of them at most. After
	// fruitless such sweeps in a row, only one key in four does so.
	sweepEntries = 64
	nearEntries  = 8
	nearMost     = 4
	fruitless    = 16
	// quickUpkeep is how many microseconds pass, in a stripe, between the upkeeps of fast
	// decisions.
	quickUpkeep = 100
	// unvisited is how many microseconds upkeep must be overdue until other stripes do it.
	unvisited = 10_000
)

// maxWork bounds the entries that one operation moves or sweeps.
const maxWork = moveEntries + sweepEntries

// A state that equals a fresh one stays, because most keys return: for longStay microseconds, and
// for briefStay if a new key needs the room, or if the table is almost empty. While the store is
// short of memory, it does not stay.
const (
	longStay  = 20_000_000
	briefStay = 1_000_000
)

// A pass over the table takes a part of the stay, however often there is upkeep: a quarter.
const passes = 4

// stay returns how many microseconds a state stays after it has become equal to a fresh one.
func (sp *stripe) stay() int64 {
	switch {
	case sp.refused || sp.store.isShort():
		return 0
	case sp.isSparse():
		return briefStay
	default:
		return longStay
	}
}

// isCrowded reports whether the table will soon have to grow.
func (sp *stripe) isCrowded() bool {
	return uint64(sp.now.used)*crowdDen >= sp.now.size*crowdNum
}

// isSparse reports whether the table could be smaller, with fewer states that equal fresh ones.
func (sp *stripe) isSparse() bool {
	return sp.now.size > 16*firstSize && uint64(sp.now.used) < sp.now.size/4
}

// isShort reports whether three quarters of the memory are taken, or limits are made on the fly.
func (s *Store) isShort() bool {
	return s.bytes.Load() > s.maxBytes/4*3 || s.versions.many.Load()
}

// upkeep moves a few entries of the old table if there is one, and otherwise sweeps a few entries if that is due.
func (sp *stripe) upkeep(now int64) {
	sp.worked = 0
	sp.giveBackDue(now, moveEntries)
	if sp.old != nil {
		sp.move(moveEntries, now)
		return
	}
	stay := sp.stay()
	if stay > 0 && now < sp.nextSweep {
		return
	}
	sp.sweep(sweepEntries, stay, now)
	if sp.slab.live > 0 {
		stay = min(stay, briefStay) // blocks are soon given up
	}
	sp.nextSweep = now + stay/passes*sweepEntries/int64(len(sp.now.entries))
}

// tryUpkeep does some upkeep after a fast decision. It does nothing if the stripe is locked.
func (sp *stripe) tryUpkeep(now int64) {
	if !sp.mu.TryLock() {
		return // another goroutine does it
	}
	sp.frozen.Store(true)
	sp.scheduleUpkeep(now)
	if !sp.closed {
		sp.upkeep(now)
	}
	sp.unlock()
	sp.store.tend(sp, now)
}

// tend does upkeep in a stripe that nobody visits, after upkeep in a stripe that somebody visits.
// Without it, an idle store would keep the memory of stripes to which no request comes.
func (s *Store) tend(visited *stripe, now int64) {
	sp := &s.stripes[s.tended.Add(1)%uint64(len(s.stripes))]
	if sp == visited || now-sp.nextUpkeep.Load() < unvisited || !sp.mu.TryLock() {
		return
	}
	sp.frozen.Store(true)
	sp.nextUpkeep.Store(now)
	if !sp.closed {
		sp.upkeep(now)
	}
	sp.unlock()
}

// scheduleUpkeep sets when upkeep is next due, and checks the wall clock.
func (sp *stripe) scheduleUpkeep(now int64) {
	sp.nextUpkeep.Store(now + quickUpkeep)
	sp.store.followWall()
}

// followWall moves the store's clock forward if the wall clock is ahead.
func (s *Store) followWall() {
	if s.clockFunc == nil {
		at := time.Now()
		s.clock.follow(at.UnixMicro(), s.clock.elapsed(at))
	}
}

// makeRoom prepares for one more key: it continues or begins a growth, or sweeps. It returns
// whether there is room.
func (sp *stripe) makeRoom(key uint64, now int64) bool {
	sp.worked = 0
	if sp.old != nil {
		sp.move(moveEntries, now)
	} else {
		sp.relieve(key, now)
	}
	if sp.old == nil && uint64(sp.now.used)*loadDen >= sp.now.size*loadNum {
		sp.expand(now)
	}
	if uint64(sp.keys())*fullDen < sp.now.size*fullNum {
		return true
	}
	if sp.old != nil {
		return sp.keys() < sp.now.used+len(sp.now.entries) // both tables still have room
	}
	sp.sweep(sweepEntries, 0, now)
	return uint64(sp.now.used)*fullDen < sp.now.size*fullNum
}

// expand begins a growth, if there is memory for it.
func (sp *stripe) expand(now int64) {
	size := sp.now.size
	steps := []uint64{size / 4 * 3, size / 4}
	if size <= 1024 {
		steps = []uint64{size, size / 2}
	}
	for _, more := range steps {
		if sp.refused = !sp.store.grow(tableBytes(size + more)); !sp.refused {
			sp.resize(size + more)
			sp.move(moveEntries, now)
			return
		}
	}
}

// relieve sweeps the entries at the home of a new key, if memory is short, or if both the table and
// these entries are crowded. The homes of new keys are evenly spread, so no part of a table fills up.
func (sp *stripe) relieve(key uint64, now int64) {
	stay := min(sp.stay(), briefStay)
	if sp.pinned || sp.old != nil || stay > 0 && !sp.isCrowded() {
		return
	}
	t := sp.now
	at := t.home(key)
	n := min(nearEntries, len(t.entries)-at)
	if stay > 0 && !t.isRun(at, n/2) {
		return
	}
	if sp.inVain >= fruitless {
		if sp.inVain++; sp.inVain%4 != 0 {
			return
		}
	}
	removed := sp.sweepRun(at, n, nearMost, stay, now)
	sp.worked += n
	if sp.inVain++; removed > 0 {
		sp.inVain = 0
	}
}

// grow takes bytes from the store's bound. It returns false and takes nothing if too few are left.
func (s *Store) grow(n int64) bool {
	if s.bytes.Add(n) <= s.maxBytes {
		return true
	}
	s.bytes.Add(-n)
	return false
}

// resize begins to move all keys into a table of another size, whose bytes the caller has taken.
func (sp *stripe) resize(size uint64) {
	sp.old, sp.oldest, sp.moved = sp.now, 0, 0
	sp.now = newTable(size)
	sp.sweepAt = 0
}

// move moves the keys of the next n entries of the old table. While a table shrinks, move drops
// the states that may be given up.
func (sp *stripe) move(n int, now int64) {
	old, t := sp.old, sp.now
	shrinks := !sp.pinned && t.size < old.size
	for old.used > 0 {
		e := &old.entries[sp.oldest]
		key := e.key.Load()
		// Keys that share the first half of their identity move together.
		if n--; n < 0 && (key != sp.moved || key == 0) {
			return
		}
		sp.oldest++
		sp.worked++
		if key == 0 {
			continue
		}
		e.hold()
		sp.moved = key
		old.used--
		tag := e.tag.Load()
		if shrinks && sp.spare(e, briefStay, now) {
			sp.giveUp(e, now)
		} else {
			i, _ := t.find(t.home(key), key, tag)
			if !t.insert(i, key, tag, e.state) {
				panic("memory: a table has no room for the keys of a smaller one")
			}
		}
		e.retag(0) // no decision can lock it any more
	}
	sp.store.bytes.Add(-old.bytes())
	sp.old = nil
	sp.publish(t)
}

// sweep goes through the next n entries, and removes each that has stayed for long enough. It
// returns how many it has removed. It begins to shrink a table that is almost empty.
func (sp *stripe) sweep(n int, stay, now int64) (removed int) {
	if sp.pinned || sp.old != nil {
		return 0
	}
	for n = min(n, len(sp.now.entries)); n > 0 && sp.old == nil; {
		run := min(n, len(sp.now.entries)-sp.sweepAt)
		removed += sp.sweepRun(sp.sweepAt, run, run, stay, now)
		sp.worked += run
		n -= run
		if sp.sweepAt += run; sp.sweepAt == len(sp.now.entries) {
			sp.sweepAt = 0
			sp.shrink()
		}
	}
	return removed
}

// giveUp releases what an entry refers to, before it is removed because it is spare.
func (sp *stripe) giveUp(e *entry, now int64) {
	sp.gaveUp = max(sp.gaveUp, now)
	sp.drop(e)
}

// sweepRun is sweep for the n entries at position i, of which it removes at most some. The entries
// behind a removed one close the gap.
func (sp *stripe) sweepRun(i, n, most int, stay, now int64) (removed int) {
	t := sp.now
	next := i + n
	gap := -1 // the first of the entries that became free and are not yet emptied
	for ; i < next || gap >= 0; i++ {
		e := &t.entries[i]
		key := e.key.Load()
		switch {
		case key == 0:
			gap = t.emptyTo(gap, i)
		case i < next && removed < most && sp.spare(e, stay, now):
			sp.giveUp(e, now)
			removed++
			if gap < 0 {
				gap = i
			}
		case gap >= 0:
			to := max(gap, t.home(key))
			gap = t.emptyTo(gap, to)
			if to < i {
				t.shift(to, i)
				gap = to + 1
			}
		}
	}
	t.used -= removed
	return removed
}

// shrink begins to move the keys of a table that is less than an eighth full. The new table has
// room for the keys that arrive during the move: one for each moveEntries entries of the old one.
func (sp *stripe) shrink() {
	size := max(firstSize, 2*(uint64(sp.now.used)+uint64(len(sp.now.entries))/moveEntries))
	if sp.now.size > 16*firstSize && uint64(sp.now.used) < sp.now.size/8 && sp.store.grow(tableBytes(size)) {
		sp.resize(size)
	}
}
