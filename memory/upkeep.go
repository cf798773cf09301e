package memory

import (
	"time"

	"github.com/sluicehq/sluice/algo"
)

const (
	firstSize = 8
	// A table grows by a quarter when it is four fifths full. If it may not grow, it is filled to
	// nine tenths; shared states may use half of the rest.
	loadNum, loadDen = 4, 5
	fullNum, fullDen = 9, 10
	lastNum, lastDen = 19, 20
	// An operation that adds a key, or does upkeep, moves moveEntries entries of the old table.
	moveEntries = 64
	// An operation that adds a key sweeps sweepEntries entries. An operation that finds no room,
	// or does upkeep, sweeps sweepHard entries.
	sweepEntries, sweepHard = 4, 64
	// quickUpkeep is how many microseconds pass, in a shard, between the upkeeps of fast
	// decisions.
	quickUpkeep = 100
)

// maxWork bounds the entries that one operation moves or sweeps.
const maxWork = moveEntries + sweepHard

// upkeep moves a few entries of the old table if there is one, and otherwise sweeps a few entries.
func (sh *shard) upkeep(move, sweep int, now int64) {
	sh.worked = 0
	if sh.old != nil {
		sh.move(move, now)
	} else {
		sh.sweep(sweep, now)
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
		sh.upkeep(moveEntries, sweepHard, now)
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
		now := s.clock.now()
		s.clock.follow(time.Now().UnixMicro(), now)
	}
}

// makeRoom prepares for one more key: it continues or begins a growth, and sweeps. It returns
// whether there is room.
func (sh *shard) makeRoom(now int64) bool {
	sh.upkeep(moveEntries, sweepEntries, now)
	if sh.old == nil && uint64(sh.now.used)*loadDen >= sh.now.size*loadNum {
		size := sh.now.size + max(sh.now.size/4, firstSize)
		if sh.now.size <= 1024 {
			size = 2 * sh.now.size
		}
		if sh.store.grow(tableBytes(size)) {
			sh.resize(size)
			sh.move(moveEntries, now)
		}
	}
	if uint64(sh.keys())*fullDen < sh.now.size*fullNum {
		return true
	}
	if sh.old != nil {
		return sh.keys() < sh.now.used+len(sh.now.entries) // both tables still have room
	}
	sh.sweep(sweepHard, now)
	return uint64(sh.now.used)*fullDen < sh.now.size*fullNum
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
	sh.publish(newTable(size))
	sh.sweepAt = 0
}

// move moves the keys of the next n entries of the old table. It drops states that are equal to
// fresh ones.
func (sh *shard) move(n int, now int64) {
	old := sh.old
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
		if !sh.pinned && sh.fresh(e, now) {
			sh.drop(e)
		} else {
			tag := e.tag.Load()
			i, _ := sh.now.find(sh.now.home(key), key, tag)
			if !sh.now.insert(i, key, tag, e.state) {
				panic("memory: a table has no room for the keys of a smaller one")
			}
		}
		e.put(0, 0, algo.State{})
	}
	sh.store.bytes.Add(-old.bytes())
	sh.old = nil
}

// sweep removes each of the next n entries that equals a fresh one. It begins to shrink a
// table that is almost empty.
func (sh *shard) sweep(n int, now int64) {
	if sh.pinned || sh.old != nil {
		return
	}
	t := sh.now
	for ; n > 0; n-- {
		if sh.sweepAt >= len(t.entries) {
			sh.sweepAt = 0
			sh.shrink()
			if sh.old != nil {
				return
			}
		}
		sh.worked++
		e := &t.entries[sh.sweepAt]
		if e.key.Load() != 0 && sh.fresh(e, now) {
			sh.drop(e)
			t.remove(sh.sweepAt)
			continue
		}
		sh.sweepAt++
	}
}

// shrink begins to move the keys of a table that is less than an eighth full. The new table has
// room for the keys that arrive during the move: one for each moveEntries entries of the old one.
func (sh *shard) shrink() {
	size := max(firstSize, 2*(uint64(sh.now.used)+uint64(len(sh.now.entries))/moveEntries))
	if sh.now.size > 16*firstSize && uint64(sh.now.used) < sh.now.size/8 && sh.store.grow(tableBytes(size)) {
		sh.resize(size)
	}
}
