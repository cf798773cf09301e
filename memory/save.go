package memory

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// Save writes all states to w, for Load in this process or a later one. These are the states of all
// limits with what they owe and what they have counted, the bans, the states that new keys share when
// the store is full, and the leases of concurrency limits. It does not save the figures of Stats.
//
// Decisions go on meanwhile. Save locks a shard for a few microseconds at a time, while it copies up
// to 256 states. Each state is one that its key has had between the beginning and the end of Save. So
// a batch of requests that is decided meanwhile may be saved in part. Save needs little memory, however
// many states there are. Any number of calls may run at once.
//
// What Save writes is a secret: it has the seeds that keep clients from choosing keys which collide.
// It has the texts of banned keys, and hashes of all other keys. The error is an error of w, or
// sluice.ErrClosed. After an error, what was written is incomplete, and Load refuses it.
func (s *Store) Save(w io.Writer) error {
	v := Saver{store: s, forgetful: true}
	_, err := v.SaveAll(w)
	return err
}

// Saver saves the states of a store again and again: first all of them, and then the changed states. It
// remembers 24 bytes for each state, beside Options.MaxBytes. Make it with Store.NewSaver. It is safe
// for concurrent use; one call waits for the other.
type Saver struct {
	store     *Store
	forgetful bool // for one save: remember nothing

	mu sync.Mutex
	progress
	block []byte
	begin []byte // the block that begins a save, until it is written
	walk  walk
	spare []savedMark // the memory of an earlier list
	// numbers are the numbers of limits. They are never used again, so that marks stay valid.
	numbers    map[*version]uint64
	lastNumber uint64
	latest     *version // the limit whose number was needed last
	latestIs   uint64
	report     Saved
	all        bool // SaveAll is under way
}

// progress is what a Saver has written to one file.
type progress struct {
	begun   bool // SaveAll has succeeded
	file    fileID
	saves   uint64
	out     blockWriter
	saved   [][]savedMark   // by shard, in the order of keys
	defined map[uint64]bool // numbers whose limits the file has
}

// savedMark remembers what was saved last about a key: its identity, and a hash of the state. If a
// state changes, its mark stays the same with a probability of 2⁻⁶⁴.
type savedMark struct {
	key, tag, state uint64
}

// Beside the hash, a tag has unused bits. markBan is set in the tag of a ban. While SaveAll is under way, markNew
// is set for a state that the earlier file lacks, and markGone for one that only the earlier file has.
const (
	markBan = 1 << iota
	markNew
	markGone
)

// Saved is what a Saver has done.
type Saved struct {
	// States is the number of states that were written, and Removed the number of states that were
	// reported as gone since the save before.
	States, Removed int
	// Bytes is how much was written. It is zero if nothing has changed.
	Bytes int64
	// LongestLock is the longest time for which a shard was locked.
	LongestLock time.Duration
}

// ErrSaveAll means that SaveChanges needs a successful SaveAll first.
var ErrSaveAll = errors.New("memory: SaveChanges continues what SaveAll has written; call SaveAll first")

// NewSaver returns a Saver for the states of the store.
func (s *Store) NewSaver() *Saver { return &Saver{store: s} }

// SaveAll writes all states to w, as Store.Save does, and remembers them. Afterwards SaveChanges can
// continue on the same writer. After an error, SaveChanges can still continue on the writer before it.
func (v *Saver) SaveAll(w io.Writer) (Saved, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.begun {
		v.saved = make([][]savedMark, len(v.store.shards))
	}
	earlier := v.progress
	v.progress = progress{saved: v.saved, defined: make(map[uint64]bool), out: blockWriter{w: w}}
	_, _ = rand.Read(v.file[:]) // it never fails
	report, err := v.saveAll()
	report.Bytes = v.out.bytes
	if v.begun = err == nil; err != nil {
		v.progress = earlier
	}
	v.choose(err == nil)
	return report, err
}

// choose decides whether the marks describe the new file or the earlier one. There is no room for both:
// SaveAll notes in its marks how the files differ.
func (v *Saver) choose(latest bool) {
	for i, marks := range v.saved {
		kept := marks[:0]
		for _, m := range marks {
			if latest && m.tag&markGone != 0 {
				continue
			}
			if !latest && m.tag&markNew != 0 {
				m.state = ^m.state // the earlier file lacks it, so that SaveChanges writes it
			}
			m.tag &^= markGone | markNew
			kept = append(kept, m)
		}
		v.saved[i] = kept
	}
}

// saveAll writes the beginning of a file and the first save.
func (v *Saver) saveAll() (Saved, error) {
	s := v.store
	if err := v.out.preamble(); err != nil {
		return Saved{}, err
	}
	v.block = newBlock(blockHead, v.block)
	v.block = append(v.block, v.file[:]...)
	v.block = binary.LittleEndian.AppendUint64(v.block, uint64(len(s.shards)))
	for _, f := range [...]*folded{&s.first, &s.second} {
		for _, word := range f.seed {
			v.block = binary.LittleEndian.AppendUint64(v.block, word)
		}
	}
	if err := v.out.put(v.block); err != nil {
		return Saved{}, err
	}
	for i := range s.shards {
		if err := v.saveSize(&s.shards[i]); err != nil {
			return Saved{}, err
		}
	}
	return v.save(true)
}

// SaveChanges writes the states that have changed since the last save by this Saver. The writer must
// append to what SaveAll has written. If nothing has changed, SaveChanges writes nothing.
//
// Each call of Write gets one block. After an error of Write, the writer must take back what it has
// written of this block. Then the next SaveChanges writes the rest. A writer that cannot do so needs a
// SaveAll next.
func (v *Saver) SaveChanges(w io.Writer) (Saved, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.begun {
		return Saved{}, ErrSaveAll
	}
	v.out.w, v.out.bytes = w, 0
	report, err := v.save(false)
	report.Bytes = v.out.bytes
	return report, err
}

// save writes the states of all shards that differ from what was saved.
func (v *Saver) save(all bool) (Saved, error) {
	v.report, v.all = Saved{}, all
	v.saves++
	v.forgetVersions()
	v.begin = newBlock(blockBegin, v.begin)
	v.begin = append(v.begin, v.file[:]...)
	v.begin = binary.LittleEndian.AppendUint64(v.begin, v.saves)
	v.begin = binary.LittleEndian.AppendUint64(v.begin, uint64(v.store.now()))
	for i := range v.store.shards {
		if err := v.saveShard(i); err != nil {
			return v.report, err
		}
	}
	if len(v.begin) > 0 && !all { // nothing has changed
		v.saves--
		return v.report, nil
	}
	v.block = newBlock(blockEnd, v.block)
	v.block = binary.LittleEndian.AppendUint64(v.block, v.saves)
	v.block = binary.LittleEndian.AppendUint64(v.block, uint64(v.store.now()))
	v.block = binary.LittleEndian.AppendUint64(v.block, uint64(v.report.States))
	return v.report, v.put(v.block)
}

// put writes a block, after the block that begins the save.
func (v *Saver) put(block []byte) error {
	if len(v.begin) > 0 {
		if err := v.out.put(v.begin); err != nil {
			return err
		}
		v.begin = v.begin[:0]
	}
	return v.out.put(block)
}

// forgetVersions forgets the numbers of limits that the store has given up.
func (v *Saver) forgetVersions() {
	if v.numbers == nil {
		v.numbers = make(map[*version]uint64)
	}
	v.latest = nil
	for p, number := range v.numbers {
		if p.retired.Load() {
			delete(v.numbers, p)
			delete(v.defined, number)
		}
	}
}

// saveShard writes what has changed in a shard.
func (v *Saver) saveShard(i int) error {
	old := v.saved[i]
	marks := v.marksFor(i)
	v.block = newBlock(blockStates, v.block)
	v.walk.begin(&v.store.shards[i])
	for !v.walk.done {
		if err := v.walk.part(); err != nil {
			return err
		}
		for c := v.walk.copies; len(c) > 0; {
			n := 1
			for n < len(c) && c[n].key == c[0].key {
				n++
			}
			var err error
			if old, marks, err = v.removeBefore(old, marks, c[0].key); err != nil {
				return err
			}
			if old, marks, err = v.saveGroup(c[:n], old, marks); err != nil {
				return err
			}
			c = c[n:]
		}
		runtime.Gosched() // decisions come first
	}
	var err error
	for _, m := range old {
		if marks, err = v.remove(m, marks); err != nil {
			return err
		}
	}
	v.report.LongestLock = max(v.report.LongestLock, v.walk.longest)
	if len(v.block) > blockHeader {
		if err := v.put(v.block); err != nil {
			return err
		}
	}
	if !v.forgetful {
		v.spare = v.saved[i]
		v.saved[i] = marks
		if cap(marks)/4 > len(marks)+mostCopies {
			v.saved[i] = slices.Clone(marks) // there were many more states
		}
	}
	return nil
}

// marksFor returns room for the marks of a shard, in the memory of an earlier list if that is enough. It leaves
// little unused: there is a mark for each state.
func (v *Saver) marksFor(i int) []savedMark {
	if v.forgetful {
		return nil
	}
	sh := &v.store.shards[i]
	sh.mu.Lock()
	n := sh.keys()
	sh.mu.Unlock()
	if n > cap(v.spare) {
		return make([]savedMark, 0, n+n/32+mostCopies)
	}
	return v.spare[:0]
}

// saveSize writes the size of a shard's table, so that Load can make it at once.
func (v *Saver) saveSize(sh *shard) error {
	sh.mu.Lock()
	size := sh.now.size
	sh.mu.Unlock()
	v.block = newBlock(blockShard, v.block)
	v.block = binary.AppendUvarint(v.block, uint64(sh.number))
	v.block = binary.AppendUvarint(v.block, size)
	return v.out.put(v.block)
}

// saveGroup writes the states with one key that differ from the marks of this key, and appends their
// new marks. It returns the marks of larger keys.
func (v *Saver) saveGroup(copies []savedEntry, old, marks []savedMark) (rest, kept []savedMark, err error) {
	n := 0
	for n < len(old) && old[n].key == copies[0].key {
		n++
	}
	group, rest := old[:n], old[n:]
	for i := range copies {
		c := &copies[i]
		m := v.mark(c)
		changed := !slices.Contains(group, m)
		if changed || v.all {
			if err := v.saveEntry(c); err != nil {
				return rest, marks, err
			}
		}
		if changed && v.all {
			m.tag |= markNew
		}
		if !v.forgetful {
			marks = append(marks, m)
		}
	}
	for _, m := range group {
		if !hasTag(copies, m.tag) {
			if marks, err = v.remove(m, marks); err != nil {
				return rest, marks, err
			}
		}
	}
	return rest, marks, nil
}

func hasTag(copies []savedEntry, tag uint64) bool {
	for i := range copies {
		if copies[i].tag == tag {
			return true
		}
	}
	return false
}

// removeBefore reports the states whose keys are less than a key as gone.
func (v *Saver) removeBefore(old, marks []savedMark, key uint64) (rest, kept []savedMark, err error) {
	for len(old) > 0 && old[0].key < key {
		if marks, err = v.remove(old[0], marks); err != nil {
			return old, marks, err
		}
		old = old[1:]
	}
	return old, marks, nil
}

// mark returns the mark of a state.
func (v *Saver) mark(c *savedEntry) savedMark {
	h := folded{seed: v.store.first.seed}
	sum := fold(uint64(c.state.T)^h.seed[1], c.state.V^h.seed[2])
	switch {
	case c.v == nil:
	case c.v.inline:
		sum = fold(sum^h.seed[3], v.number(c.v)^h.seed[0])
	default:
		// T is where the block is, which may change. V is its class, which is saved.
		sum = fold(v.number(c.v)^h.seed[3], c.state.V^h.seed[0])
		for _, word := range v.walk.words[c.from:c.to] {
			sum = fold(sum^h.seed[1], word^h.seed[2])
		}
	}
	return savedMark{c.key, c.tag, sum}
}

// number returns the number of a limit.
func (v *Saver) number(p *version) uint64 {
	if p == v.latest {
		return v.latestIs
	}
	n := v.numbers[p]
	if n == 0 {
		v.lastNumber++
		n = v.lastNumber
		v.numbers[p] = n
	}
	v.latest, v.latestIs = p, n
	return n
}

// The forms of a state in a block.
const (
	formRemoved = iota
	formInline
	formWords
	formBan
	formListedBan
	formDigestBan
	formRemovedBan
)

// record begins a record in the block of states. If the block is full, it writes the block first.
func (v *Saver) record(form byte, key, tag uint64) error {
	if len(v.block) >= fullBlock {
		if err := v.put(v.block); err != nil {
			return err
		}
		v.block = newBlock(blockStates, v.block)
	}
	v.block = append(v.block, form)
	v.block = binary.LittleEndian.AppendUint64(v.block, key)
	tag >>= hashShift
	v.block = append(v.block, byte(tag), byte(tag>>8), byte(tag>>16), byte(tag>>24), byte(tag>>32))
	return nil
}

// remove reports a state as gone. A new file never had it, and SaveAll only keeps its mark.
func (v *Saver) remove(m savedMark, marks []savedMark) ([]savedMark, error) {
	if v.all {
		m.tag |= markGone
		return append(marks, m), nil
	}
	v.report.Removed++
	form := byte(formRemoved)
	if m.tag&markBan != 0 {
		form = formRemovedBan
	}
	return marks, v.record(form, m.key, m.tag)
}

// saveEntry writes a state.
func (v *Saver) saveEntry(c *savedEntry) error {
	v.report.States++
	if c.v == nil {
		return v.saveBan(c)
	}
	number := v.number(c.v)
	if !v.defined[number] {
		if err := v.define(number, c.v.limit); err != nil {
			return err
		}
	}
	if c.v.inline {
		if err := v.record(formInline, c.key, c.tag); err != nil {
			return err
		}
		v.block = binary.AppendUvarint(v.block, number)
		v.appendState(c)
		return nil
	}
	if err := v.record(formWords, c.key, c.tag); err != nil {
		return err
	}
	words := v.walk.words[c.from:c.to]
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1] // Load gets the size from the class
	}
	v.block = binary.AppendUvarint(v.block, number)
	v.block = binary.AppendUvarint(v.block, c.state.V)
	v.block = binary.AppendUvarint(v.block, uint64(len(words)))
	for _, word := range words {
		v.block = binary.LittleEndian.AppendUint64(v.block, word)
	}
	return nil
}

func (v *Saver) appendState(c *savedEntry) {
	v.block = binary.LittleEndian.AppendUint64(v.block, uint64(c.state.T))
	v.block = binary.LittleEndian.AppendUint64(v.block, c.state.V)
}

// saveBan writes the state of a ban, with the text of its key if the ban can be listed.
func (v *Saver) saveBan(c *savedEntry) error {
	form := byte(formBan)
	var text bannedKey
	if c.isListed() {
		if form, text = formListedBan, v.walk.texts[c.from]; text.digest != "" {
			form = formDigestBan
		}
	}
	if err := v.record(form, c.key, c.tag); err != nil {
		return err
	}
	v.appendState(c)
	switch form {
	case formDigestBan:
		v.block = appendString(appendString(v.block, text.limit), text.digest)
	case formListedBan:
		v.block = appendString(v.block, text.limit)
		v.block = binary.AppendUvarint(v.block, uint64(text.key.Len()))
		v.block = appendString(v.block, text.key.Text())
	}
	return nil
}

// define writes the numbers of a limit, after the states that are in the block.
func (v *Saver) define(number uint64, l *sluice.Limit) error {
	if len(v.block) > blockHeader {
		if err := v.put(v.block); err != nil {
			return err
		}
	}
	d := describeLimit(number, l)
	v.block = d.append(newBlock(blockLimit, v.block))
	if err := v.put(v.block); err != nil {
		return err
	}
	v.defined[number] = true
	v.block = newBlock(blockStates, v.block)
	return nil
}
