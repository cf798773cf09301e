package memory

import (
	"math"
	"math/bits"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// walk copies the entries of a stripe in the order of their keys. It locks the stripe for a bounded
// number of entries at a time, so that it never delays decisions for long.
//
// Between two parts the table may grow, shrink or be swept, and keys may move. The walk continues at
// a key, not at a position: tables are in the order of keys, and so is the move from one table to
// another. So a key that has an entry all the time is copied exactly once.
type walk struct {
	sp      *stripe
	next    uint64 // all entries with smaller keys have been copied
	done    bool
	longest time.Duration // the longest time for which the stripe was locked

	copies []savedEntry
	words  []uint64
	texts  []bannedKey
}

// savedEntry is a copy of an entry.
type savedEntry struct {
	key, tag uint64 // the tag without its version and lock
	v        *version
	state    algo.State
	// from and to are the part of walk.words with the state of a kind that is not inline, or the part of
	// walk.texts with the text of a banned key.
	from, to int
}

// isListed reports whether the entry is a ban with the text of its key.
func (c *savedEntry) isListed() bool { return c.v == nil && c.from < c.to }

// One part of a walk ends when it has looked at mostPositions positions, and before that when it has
// copied mostCopies entries or mostWords words. Entries with equal keys are in one part: there is one
// for each algorithm of a name. A part exceeds mostWords by one state at most.
const (
	mostPositions = 1024
	mostCopies    = 256
	mostWords     = 1 << 12
)

func (w *walk) begin(sp *stripe) {
	w.sp, w.next, w.done, w.longest = sp, 1, false, 0 // no entry has the key 0
	if w.copies == nil {
		// While the stripe is locked, most parts allocate nothing: the collector could delay them.
		w.copies = make([]savedEntry, 0, mostCopies+16)
		w.words = make([]uint64, 0, 2*mostWords)
	}
}

// part copies the next part into copies and words.
func (w *walk) part() error {
	w.copies, w.words, w.texts = w.copies[:0], w.words[:0], w.texts[:0]
	sp := w.sp
	sp.lock()
	began := time.Now()
	defer func() {
		took := time.Since(began)
		sp.unlock()
		w.longest = max(w.longest, took)
	}()
	if sp.closed {
		return sluice.ErrClosed
	}
	for positions := 0; !w.done; {
		t, from := sp.tableOf(w.next)
		for i := t.first(from, w.next); i < len(t.entries); i++ {
			e := &t.entries[i]
			key := e.key.Load()
			full := positions >= mostPositions || len(w.copies) >= mostCopies || len(w.words) >= mostWords
			if last := len(w.copies) - 1; full && (last < 0 || w.copies[last].key != key) {
				return nil
			}
			positions++
			switch {
			case key != 0:
				w.copy(e, key)
				w.after(key)
			case uint64(i) >= t.size:
				i = len(t.entries) // keys are displaced beyond the homes without a gap
			case sp.old != nil && t == sp.now:
				i = w.skipMoved(t, i)
			default:
				w.skip(t, uint64(i)+1)
			}
		}
		w.leave(t)
	}
	return nil
}

// copy copies an entry, unless it has no state.
func (w *walk) copy(e *entry, key uint64) {
	e.hold()
	c := savedEntry{key: key, tag: e.tag.Load() >> hashShift << hashShift, state: e.state}
	index := e.version()
	if index == banVersion {
		c.tag |= markBan
		c.from = len(w.texts)
		if b, ok := w.sp.banned[banID{key, e.tag.Load() &^ lockBit}]; ok {
			w.texts = append(w.texts, b)
		}
		c.to = len(w.texts)
		w.copies = append(w.copies, c)
		return
	}
	c.v = w.sp.store.versions.at(index)
	if !c.v.inline {
		if e.state.T == 0 {
			return
		}
		c.from = len(w.words)
		w.words = append(w.words, w.sp.words(e)...)
		c.to = len(w.words)
	}
	w.copies = append(w.copies, c)
}

// after continues after a key. The next entry may have the same key: a part never ends between the
// two.
func (w *walk) after(key uint64) {
	if key == math.MaxUint64 {
		w.done = true
		return
	}
	w.next = max(w.next, key+1)
}

// skipMoved is skip for an empty entry of a table that keys are being moved to. It returns the
// position, or the end of the table if the keys behind it have not been moved yet.
func (w *walk) skipMoved(t *table, i int) int {
	if w.skip(t, uint64(i)+1); w.next > w.sp.moved {
		w.next = w.sp.moved // and leave continues after it
		return len(t.entries)
	}
	return i
}

// skip continues at the least key whose home in a table is not before a position. The entry before
// the position is empty, so there is no smaller key behind it.
func (w *walk) skip(t *table, position uint64) {
	if position >= t.size {
		return
	}
	key, rest := bits.Div64(position, 0, t.size)
	if rest > 0 {
		key++
	}
	w.next = max(w.next, key)
}

// leave continues after the last entry of a table.
func (w *walk) leave(t *table) {
	if sp := w.sp; sp.old != nil && t == sp.now {
		w.after(max(w.next-1, sp.moved)) // the larger keys are still in the old table
		return
	}
	w.done = true
}
