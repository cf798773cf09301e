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
// Decisions go on meanwhile. Save locks a stripe for a few microseconds at a time, while it copies up
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
// remembers 17 bytes for each state, beside Options.MaxBytes. Make it with Store.NewSaver. It is safe
// for concurrent use; one call waits for the other.
type Saver struct {
	store     *Store
	forgetful bool // for one save: remember nothing

	mu sync.Mutex
	progress
	block []byte
	begin []byte // the block that begins a save, until it is written
	walk  walk
	old   markReader // the marks of the stripe that is being saved
	kept  markList   // its new marks
	group []savedMark
	spare [][]byte // chunks for marks
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
	saved   []markList      // by stripe
	defined map[uint64]bool // numbers whose limits the file has
}

// Saved is what a Saver has done.
type Saved struct {
	// States is the number of states that were written, and Removed the number of states that were
	// reported as gone since the save before.
	States, Removed int
	// Bytes is how much was written. It is zero if nothing has changed.
	Bytes int64
	// LongestLock is the longest time for which a stripe was locked.
	LongestLock time.Duration
}

// errSaveAll means that SaveChanges needs a successful SaveAll first.
var errSaveAll = errors.New("memory: SaveChanges continues what SaveAll has written; call SaveAll first")

// NewSaver returns a Saver for the states of the store.
func (s *Store) NewSaver() *Saver { return &Saver{store: s} }

// SaveAll writes all states to w, as Store.Save does, and remembers them. Afterwards SaveChanges can
// continue on the same writer. After an error, SaveChanges can still continue on the writer before it.
func (v *Saver) SaveAll(w io.Writer) (Saved, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.begun {
		v.saved = make([]markList, len(v.store.stripes))
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
	for i := range v.saved {
		var kept markList
		for r := v.read(&v.saved[i]); r.more; r.next() {
			m := r.mark
			if latest && m.tag&markGone != 0 {
				continue
			}
			if !latest && m.tag&markNew != 0 {
				m.state = ^m.state & stateMask // the earlier file lacks it, so that SaveChanges writes it
			}
			m.tag &^= markGone | markNew
			v.keep(&kept, m)
		}
		v.giveBack(&v.saved[i], len(kept.chunks))
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
	v.block = binary.LittleEndian.AppendUint64(v.block, uint64(len(s.stripes)))
	for _, f := range [...]*folded{&s.first, &s.second} {
		for _, word := range f.seed {
			v.block = binary.LittleEndian.AppendUint64(v.block, word)
		}
	}
	if err := v.out.put(v.block); err != nil {
		return Saved{}, err
	}
	for i := range s.stripes {
		if err := v.saveSize(&s.stripes[i]); err != nil {
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
		return Saved{}, errSaveAll
	}
	v.out.w, v.out.bytes = w, 0
	report, err := v.save(false)
	report.Bytes = v.out.bytes
	return report, err
}

// save writes the states of all stripes that differ from what was saved.
func (v *Saver) save(all bool) (Saved, error) {
	v.report, v.all = Saved{}, all
	v.saves++
	v.forgetVersions()
	v.begin = newBlock(blockBegin, v.begin)
	v.begin = append(v.begin, v.file[:]...)
	v.begin = binary.LittleEndian.AppendUint64(v.begin, v.saves)
	v.begin = binary.LittleEndian.AppendUint64(v.begin, uint64(v.store.now()))
	for i := range v.store.stripes {
		if err := v.saveStripe(i); err != nil {
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

// saveStripe writes what has changed in a stripe. After an error, its marks describe the file that SaveChanges continues.
func (v *Saver) saveStripe(i int) error {
	v.old, v.kept = v.read(&v.saved[i]), markList{}
	err := v.saveStates(&v.store.stripes[i])
	switch {
	case v.forgetful:
		return err
	case err != nil && v.all: // the file is given up
		v.giveBack(&v.kept, len(v.kept.chunks))
		return err
	case err != nil:
		v.doubt(i)
	}
	v.giveBack(&v.saved[i], len(v.kept.chunks))
	v.saved[i] = v.kept
	return err
}

// doubt makes v.kept the marks of a stripe that was saved in part. Nobody notes which blocks the file has. So each
// state that was to be written, or reported as gone, differs from its mark: the next save writes it, or reports it as
// gone.
func (v *Saver) doubt(i int) {
	before, after, rest := v.read(&v.saved[i]), v.read(&v.kept), v.old
	written := v.kept
	v.kept = markList{}
	group := func(r *markReader, key uint64) (group []savedMark) {
		for ; r.more && r.mark.key == key; r.next() {
			group = append(group, r.mark)
		}
		return group
	}
	for before.more || after.more {
		key := after.mark.key
		if !after.more || before.more && before.mark.key < key {
			key = before.mark.key
		}
		was, is := group(&before, key), group(&after, key)
		untouched := rest.more && key >= rest.mark.key
		for _, m := range was {
			if !untouched && !slices.Contains(is, m) {
				m.state = ^m.state & stateMask
			}
			v.keep(&v.kept, m)
		}
		for _, m := range is {
			if !slices.ContainsFunc(was, func(w savedMark) bool { return w.tag == m.tag }) {
				m.state = ^m.state & stateMask
				v.keep(&v.kept, m)
			}
		}
	}
	v.giveBack(&written, len(v.kept.chunks))
}

// saveStates writes what has changed in a stripe, and keeps the new marks.
func (v *Saver) saveStates(sp *stripe) error {
	v.block = newBlock(blockStates, v.block)
	v.walk.begin(sp)
	for !v.walk.done {
		if err := v.walk.part(); err != nil {
			return err
		}
		for c := v.walk.copies; len(c) > 0; {
			n := 1
			for n < len(c) && c[n].key == c[0].key {
				n++
			}
			for v.old.more && v.old.mark.key < c[0].key {
				if err := v.remove(v.old.mark); err != nil {
					return err
				}
				v.old.next()
			}
			if err := v.saveGroup(c[:n]); err != nil {
				return err
			}
			c = c[n:]
		}
		runtime.Gosched() // decisions come first
	}
	for ; v.old.more; v.old.next() {
		if err := v.remove(v.old.mark); err != nil {
			return err
		}
	}
	v.report.LongestLock = max(v.report.LongestLock, v.walk.longest)
	if len(v.block) > blockHeader {
		return v.put(v.block)
	}
	return nil
}

// saveSize writes the size of a stripe's table, so that Load can make it at once.
func (v *Saver) saveSize(sp *stripe) error {
	sp.mu.Lock()
	size := sp.now.size
	sp.mu.Unlock()
	v.block = newBlock(blockStripe, v.block)
	v.block = binary.AppendUvarint(v.block, uint64(sp.number))
	v.block = binary.AppendUvarint(v.block, size)
	return v.out.put(v.block)
}

// saveGroup writes the states with one key that differ from the marks of this key, and keeps their new marks.
func (v *Saver) saveGroup(copies []savedEntry) error {
	v.group = v.group[:0]
	for ; v.old.more && v.old.mark.key == copies[0].key; v.old.next() {
		v.group = append(v.group, v.old.mark)
	}
	for i := range copies {
		c := &copies[i]
		m := v.mark(c)
		changed := !slices.Contains(v.group, m)
		if changed || v.all {
			if err := v.saveEntry(c); err != nil {
				return err
			}
		}
		if changed && v.all {
			m.tag |= markNew
		}
		if !v.forgetful {
			v.keep(&v.kept, m)
		}
	}
	for _, m := range v.group {
		if !hasTag(copies, m.tag) {
			if err := v.remove(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasTag reports whether one of the states has the tag.
func hasTag(copies []savedEntry, tag uint64) bool {
	for i := range copies {
		if copies[i].tag == tag {
			return true
		}
	}
	return false
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
		// The state refers to a block of the slab. T is the block's address, which may change, and is not saved. V is
		// the block's class, which is saved.
		sum = fold(v.number(c.v)^h.seed[3], c.state.V^h.seed[0])
		for _, word := range v.walk.words[c.from:c.to] {
			sum = fold(sum^h.seed[1], word^h.seed[2])
		}
	}
	return savedMark{c.key, c.tag, sum & stateMask}
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
func (v *Saver) remove(m savedMark) error {
	if v.all {
		m.tag |= markGone
		v.keep(&v.kept, m)
		return nil
	}
	v.report.Removed++
	form := byte(formRemoved)
	if m.tag&markBan != 0 {
		form = formRemovedBan
	}
	return v.record(form, m.key, m.tag)
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
