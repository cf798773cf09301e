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
	// quickUpkeep is how many microseconds pass, in a shard, between the upkeeps of fast
	// decisions.
	quickUpkeep = 100
	// unvisited is how many microseconds upkeep must be overdue until other shards do it.
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

// stay returns how many microseconds a state stays after it has become equal to a fresh one.
func (sh *shard) stay() int64 {
	switch {
	case sh.refused || sh.store.isShort():
		return 0
	case sh.isSparse():
		return briefStay
	default:
		return longStay
	}
}

// isCrowded reports whether the table will soon have to grow.
func (sh *shard) isCrowded() bool {
	return uint64(sh.now.used)*crowdDen >= sh.now.size*crowdNum
}

// isSparse reports whether the table could be smaller, with fewer states that equal fresh ones.
func (sh *shard) isSparse() bool {
	return sh.now.size > 16*firstSize && uint64(sh.now.used) < sh.now.size/4
}

// isShort reports whether three quarters of the memory are taken, or limits are made on the fly.
func (s *Store) isShort() bool {
	return s.bytes.Load() > s.maxBytes/4*3 || s.versions.many.Load()
}

// upkeep moves a few entries of the old table if there is one, and otherwise sweeps a few entries.
func (sh *shard) upkeep(now int64) {
	sh.worked = 0
	if sh.old != nil {
		sh.move(moveEntries, now)
	} else {
		sh.sweep(sweepEntries, sh.stay(), now)
	}
}

// tryUpkeep does some upkeep after a fast decision. It does nothing if the shard is locked.
func (sh *shard) tryUpkeep(now int64) {
	if !sh.mu.TryLock() {
		return // another goroutine does it
	}
	sh.frozen.Store(true)
	sh.scheduleUpkeep(now)
	if !sh.closed {
		sh.upkeep(now)
	}
	sh.unlock()
	sh.store.tend(sh, now)
}

// tend does upkeep in a shard that nobody visits, after upkeep in a shard that somebody visits.
// Without it, an idle store would keep the memory of shards to which no request comes.
func (s *Store) tend(visited *shard, now int64) {
	sh := &s.shards[s.tended.Add(1)%uint64(len(s.shards))]
	if sh == visited || now-sh.nextUpkeep.Load() < unvisited || !sh.mu.TryLock() {
		return
	}
	sh.frozen.Store(true)
	sh.nextUpkeep.Store(now)
	if !sh.closed {
		sh.upkeep(now)
	}
	sh.unlock()
}

// scheduleUpkeep sets when upkeep is next due, and checks the wall clock.
func (sh *shard) scheduleUpkeep(now int64) {
	sh.nextUpkeep.Store(now + quickUpkeep)
	sh.store.followWall()
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
func (sh *shard) makeRoom(key uint64, now int64) bool {
	sh.worked = 0
	if sh.old != nil {
		sh.move(moveEntries, now)
	} else {
		sh.relieve(key, now)
	}
	if sh.old == nil && uint64(sh.now.used)*loadDen >= sh.now.size*loadNum {
		sh.expand(now)
	}
	if uint64(sh.keys())*fullDen < sh.now.size*fullNum {
		return true
	}
	if sh.old != nil {
		return sh.keys() < sh.now.used+len(sh.now.entries) // both tables still have room
	}
	sh.sweep(sweepEntries, 0, now)
	return uint64(sh.now.used)*fullDen < sh.now.size*fullNum
}

// expand begins a growth, if there is memory for it.
func (sh *shard) expand(now int64) {
	size := sh.now.size
	steps := []uint64{size / 4 * 3, size / 4}
	if size <= 1024 {
		steps = []uint64{size, size / 2}
	}
	for _, more := range steps {
		if sh.refused = !sh.store.grow(tableBytes(size + more)); !sh.refused {
			sh.resize(size + more)
			sh.move(moveEntries, now)
			return
		}
	}
}

// relieve sweeps the entries at the home of a new key, if memory is short, or if both the table and
// these entries are crowded. The homes of new keys are evenly spread, so no part of a table fills up.
func (sh *shard) relieve(key uint64, now int64) {
	stay := min(sh.stay(), briefStay)
	if sh.pinned || sh.old != nil || stay > 0 && !sh.isCrowded() {
		return
	}
	t := sh.now
	at := t.home(key)
	n := min(nearEntries, len(t.entries)-at)
	if stay > 0 && !t.isRun(at, n/2) {
		return
	}
	if sh.inVain >= fruitless {
		if sh.inVain++; sh.inVain%4 != 0 {
			return
		}
	}
	removed := sh.sweepRun(at, n, nearMost, stay, now)
	sh.worked += n
	if sh.inVain++; removed > 0 {
		sh.inVain = 0
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
func (sh *shard) resize(size uint64) {
	sh.old, sh.oldest, sh.moved = sh.now, 0, 0
	sh.now = newTable(size)
	sh.sweepAt = 0
}

// move moves the keys of the next n entries of the old table. While a table shrinks, move drops
// the states that may be given up.
func (sh *shard) move(n int, now int64) {
	old, t := sh.old, sh.now
	shrinks := !sh.pinned && t.size < old.size
	for old.used > 0 {
		e := &old.entries[sh.oldest]
		key := e.key.Load()
		// Keys that share the first half of their identity move together.
		if n--; n < 0 && (key != sh.moved || key == 0) {
			return
		}
		sh.oldest++
		sh.worked++
		if key == 0 {
			continue
		}
		e.hold()
		sh.moved = key
		old.used--
		tag := e.tag.Load()
		if shrinks && sh.spare(e, briefStay, now) {
			sh.giveUp(e, now)
		} else {
			i, _ := t.find(t.home(key), key, tag)
			if !t.insert(i, key, tag, e.state) {
				panic("memory: a table has no room for the keys of a smaller one")
			}
		}
		e.retag(0) // no decision can lock it any more
	}
	sh.store.bytes.Add(-old.bytes())
	sh.old = nil
	sh.publish(t)
}

// sweep goes through the next n entries, and removes each that has stayed for long enough. It
// returns how many it has removed. It begins to shrink a table that is almost empty.
func (sh *shard) sweep(n int, stay, now int64) (removed int) {
	if sh.pinned || sh.old != nil {
		return 0
	}
	for n = min(n, len(sh.now.entries)); n > 0 && sh.old == nil; {
		run := min(n, len(sh.now.entries)-sh.sweepAt)
		removed += sh.sweepRun(sh.sweepAt, run, run, stay, now)
		sh.worked += run
		n -= run
		if sh.sweepAt += run; sh.sweepAt == len(sh.now.entries) {
			sh.sweepAt = 0
			sh.shrink()
		}
	}
	return removed
}

// giveUp releases what an entry refers to, before it is removed because it is spare.
func (sh *shard) giveUp(e *entry, now int64) {
	sh.gaveUp = max(sh.gaveUp, now)
	sh.drop(e)
}

// sweepRun is sweep for the n entries at position i, of which it removes at most some. The entries
// behind a removed one close the gap.
func (sh *shard) sweepRun(i, n, most int, stay, now int64) (removed int) {
	t := sh.now
	next := i + n
	gap := -1 // the first of the entries that became free and are not yet emptied
	for ; i < next || gap >= 0; i++ {
		e := &t.entries[i]
		key := e.key.Load()
		switch {
		case key == 0:
			gap = t.emptyTo(gap, i)
		case i < next && removed < most && sh.spare(e, stay, now):
			sh.giveUp(e, now)
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
func (sh *shard) shrink() {
	size := max(firstSize, 2*(uint64(sh.now.used)+uint64(len(sh.now.entries))/moveEntries))
	if sh.now.size > 16*firstSize && uint64(sh.now.used) < sh.now.size/8 && sh.store.grow(tableBytes(size)) {
		sh.resize(size)
	}
}
