package memory

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
)

// Loaded describes what Load has read.
type Loaded struct {
	// SavedAt is the time at which the last complete save began, by the clock of the store that was
	// saved. All decisions before that time are in the states.
	SavedAt time.Time
	// States is how many states the store has got. States that equal a fresh one were left out.
	States int64
	// Incomplete says that the last save is cut off or damaged, as after a loss of power. The store
	// has the states of the saves before it, and what is intact of the last one.
	Incomplete bool
}

// Load returns a new store with the states that Store.Save or a Saver has written. Each key continues
// where it was when its state was saved, and the time since then counts: buckets are refilled, windows
// and bans end. If the clock went back meanwhile, it refills nothing and locks no key out for more
// than a period, as with a clock that is set back. Load reads r to its end, and needs little memory
// beside the store.
//
// States find their limits by name and algorithm. A limit that has other numbers now converts them,
// as after any change of its numbers. The states of limits that are gone stay until they equal fresh
// ones. Charges that were made before the save can be settled and cancelled. Leases of concurrency
// limits stay until they are released or their TTL ends, also if the process that held them is gone:
// what it has begun elsewhere may go on.
//
// The store has the number of stripes that the saved one had, or Options.Stripes if it is larger. The
// other options apply as with New; a Clock must go on with the time of the saved store.
//
// Load refuses what it does not understand: the error is an ErrForeign, ErrVersion, ErrDamaged, or an
// error of r. It is an ErrNoRoom if the states do not fit into Options.MaxBytes. A checksum protects
// against accidents, not against forgery: read states only from where no stranger can write.
func Load(r io.Reader, o Options) (*Store, Loaded, error) {
	l := loader{in: blockReader{r: r}, options: o, limits: make(map[uint64]*version)}
	err := l.load()
	if err != nil {
		if l.store != nil {
			_ = l.store.Close() // it never fails
		}
		return nil, Loaded{}, err
	}
	return l.store, l.report, nil
}

// loader is the state of one Load.
type loader struct {
	in       blockReader
	options  Options
	store    *Store
	file     fileID
	stripes  int // of the saved store
	most     int64
	limits   map[uint64]*version
	now      int64
	saves    uint64 // complete ones
	began    uint64 // the number of the save under way
	beganAt  int64
	underWay bool
	report   Loaded
}

func (l *loader) load() error {
	if err := l.in.preamble(); err != nil {
		return err
	}
	if err := l.head(); err != nil {
		return err
	}
	for {
		kind, content, err := l.in.next()
		if err == nil {
			err = l.block(kind, content)
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF) && l.saves > 0:
			l.report.Incomplete = l.underWay
		case errors.Is(err, io.EOF):
			return damaged("they end before the first save is complete")
		case errors.Is(err, ErrDamaged) && l.saves > 0:
			if err := l.checkTail(err); err != nil {
				return err
			}
			l.report.Incomplete = true
		default:
			return err
		}
		return l.finish()
	}
}

// head reads the first block and makes the store.
func (l *loader) head() error {
	kind, content, err := l.in.next()
	if errors.Is(err, io.EOF) {
		return damaged("they end after the first bytes")
	}
	if err != nil {
		return err
	}
	f := fields{rest: content}
	l.file = f.id()
	stripes := f.word()
	var seeds [2]folded
	for i := range seeds {
		for j := range seeds[i].seed {
			seeds[i].seed[j] = f.word()
		}
	}
	if kind != blockHead || f.failed || stripes < 1 || stripes > mostStripes || stripes&(stripes-1) != 0 {
		return damaged("the first block is something else")
	}
	l.stripes = int(stripes)
	if err := l.options.complete(); err != nil {
		return err
	}
	l.options.Stripes = max(l.options.Stripes, l.stripes)
	if l.store, err = New(l.options); err != nil {
		return err
	}
	l.store.first, l.store.second = seeds[0], seeds[1]
	// Only grow makes tables larger: with room to spare, early stripes would take what later ones need.
	l.most, l.store.maxBytes = l.store.maxBytes, 0
	for i := range l.store.stripes {
		l.store.stripes[i].now.published = false // nobody decides yet
	}
	l.now = l.store.now()
	return nil
}

// finish checks the size of the store, when all is read.
func (l *loader) finish() error {
	s := l.store
	s.maxBytes = l.most
	for i := range s.stripes {
		sp := &s.stripes[i]
		sp.refused = false
		sp.publish(sp.now)
		l.report.States += int64(sp.keys())
	}
	return nil
}

// checkTail returns the cause if another save follows a damaged block: only the last save of a file
// may be incomplete. Each save begins with the identity of the file.
func (l *loader) checkTail(cause error) error {
	// The damaged block may itself begin the last save: its own identity does not count.
	const piece = 1 << 16
	window := bytes.Clone(l.in.block[min(blockHeader+1, len(l.in.block)):])
	for {
		if bytes.Contains(window, l.file[:]) {
			return cause
		}
		if keep := len(l.file) - 1; len(window) > keep {
			window = append(window[:0], window[len(window)-keep:]...)
		}
		window = slices.Grow(window, piece)
		n, err := io.ReadFull(l.in.r, window[len(window):len(window)+piece])
		window = window[:len(window)+n]
		switch {
		case err != nil && !isEnd(err):
			return err
		case n == 0:
			return nil
		}
	}
}

// block reads one block after the first.
func (l *loader) block(kind byte, content []byte) error {
	f := fields{rest: content}
	switch kind {
	case blockBegin:
		id, number, at := f.id(), f.word(), int64(f.word())
		if f.failed || id != l.file || number <= l.began || l.underWay && l.saves == 0 {
			return damaged("a save begins too early")
		}
		l.began, l.beganAt, l.underWay = number, at, true
	case blockLimit:
		d := readLimit(&f)
		if f.failed {
			return damaged("a limit is incomplete")
		}
		limit, err := d.limit()
		if err != nil {
			return err
		}
		l.limits[d.number] = l.store.version(limit)
	case blockStripe:
		number, size := f.uvarint(), f.uvarint()
		if f.failed || number >= uint64(l.stripes) {
			return damaged("a stripe is incomplete")
		}
		l.enlarge(int(number), size)
	case blockStates:
		for len(f.rest) > 0 {
			if err := l.state(&f); err != nil {
				return err
			}
		}
	case blockEnd:
		if number := f.word(); f.failed || !l.underWay || number != l.began {
			return damaged("a save ends that has not begun")
		}
		l.saves, l.underWay = l.began, false
		l.report.SavedAt = time.UnixMicro(l.beganAt)
	default:
		return damaged("block %d has an unknown kind", l.in.number-1)
	}
	return nil
}

// enlarge gives a stripe, and all stripes that take its keys, the table that it had.
func (l *loader) enlarge(number int, size uint64) {
	if parts := uint64(len(l.store.stripes) / l.stripes); parts > 1 {
		size = size/parts*9/8 + firstSize // the parts differ
	}
	for ; number < len(l.store.stripes); number += l.stripes {
		sp := &l.store.stripes[number]
		if sp.keys() > 0 || size <= sp.now.size || size > uint64(l.most)/entryBytes {
			continue
		}
		more := tableBytes(size) - sp.now.bytes()
		if l.store.bytes.Load()+more > l.most {
			continue
		}
		l.store.bytes.Add(more)
		sp.now = newTable(size)
	}
}

// state reads one state and puts it into its stripe.
func (l *loader) state(f *fields) error {
	form := f.byte()
	p := location{key: f.word(), tag: f.tag()}
	if f.failed || p.key == 0 {
		return damaged("a state is incomplete")
	}
	r := savedState{form: form}
	if form != formRemoved && form != formRemovedBan {
		if err := l.content(&r, f); err != nil {
			return err
		}
	}
	if f.failed {
		return damaged("a state is incomplete")
	}
	if l.stripes == len(l.store.stripes) {
		return l.put(p, &r)
	}
	return l.spread(p, &r)
}

// spread is put for a store with more stripes than the saved one. The keys of bans, and of the states
// that new keys share, depend on the number of stripes.
func (l *loader) spread(p location, r *savedState) error {
	was, mask := uint64(l.stripes-1), uint64(len(l.store.stripes)-1)
	switch {
	case r.isBan():
		key := (p.key^banAside)&^was | p.key&was // the key of the limit's state
		p.key = (key^banAside)&^mask | key&mask
	case r.v != nil && sameHash(p.tag, r.v.id[1]) && p.key&^was == (r.v.id[0]^overflowAside)&^was:
		// Each stripe that takes a part of the keys gets the state that they shared.
		for number := p.key & was; number <= mask; number += was + 1 {
			o := p
			o.key = (r.v.id[0]^overflowAside)&^mask | number
			if err := l.put(o, r); err != nil {
				return err
			}
		}
		return nil
	}
	if p.key == 0 {
		p.key = mask + 1
	}
	return l.put(p, r)
}

// isBan reports whether the state is the state of a ban.
func (r *savedState) isBan() bool {
	switch r.form {
	case formBan, formListedBan, formDigestBan, formRemovedBan:
		return true
	default:
		return false
	}
}

// savedState is one state that was read.
type savedState struct {
	form  byte
	v     *version
	state algo.State
	class int
	words []uint64
	text  bannedKey
}

// tag reads the hash of a tag.
func (f *fields) tag() uint64 {
	p := f.take(5)
	if p == nil {
		return 0
	}
	return (uint64(p[0]) | uint64(p[1])<<8 | uint64(p[2])<<16 | uint64(p[3])<<24 | uint64(p[4])<<32) << hashShift
}

// content reads a state after its identity.
func (l *loader) content(r *savedState, f *fields) error {
	switch r.form {
	case formInline, formWords:
		number := f.uvarint()
		if r.v = l.limits[number]; r.v == nil || r.v.inline != (r.form == formInline) {
			return damaged("a state belongs to no limit")
		}
		if r.v.retired.Load() { // it had no states when further limits came
			r.v = l.store.version(r.v.limit)
			l.limits[number] = r.v
		}
	case formBan, formListedBan, formDigestBan:
	default:
		return damaged("a state has an unknown form")
	}
	if r.form == formWords {
		return l.words(r, f)
	}
	r.state = algo.State{T: int64(f.word()), V: f.word()}
	switch r.form {
	case formDigestBan:
		r.text = bannedKey{limit: f.string(), digest: f.string()}
	case formListedBan:
		r.text.limit = f.string()
		parts := f.uvarint()
		text := f.string()
		if parts > uint64(len(text))+1 {
			f.failed = true
			return nil
		}
		r.text.key = sluice.EncodedKey(text, int(parts))
	}
	return nil
}

// words reads a state of a kind that is not inline.
func (l *loader) words(r *savedState, f *fields) error {
	class, n := f.uvarint(), f.uvarint()
	if class < smallestBlock || class >= blockClasses || n > 1<<class || n > uint64(len(f.rest))/8 {
		f.failed = true
		return nil
	}
	r.class = int(class)
	r.words = make([]uint64, 1<<class)
	for i := range n {
		r.words[i] = binary.LittleEndian.Uint64(f.take(8))
	}
	if !r.v.params.CheckWords(r.words) {
		return damaged("a state of limit %q is impossible", r.v.limit.Name())
	}
	return nil
}

// put replaces the state at a location.
func (l *loader) put(p location, r *savedState) error {
	s := l.store
	p.stripe = s.stripeOf(p.key)
	sp := p.stripe
	sp.lock()
	defer sp.unlock()
	sp.remove(&p)
	if r.form == formRemoved || r.form == formRemovedBan || l.isFresh(r) {
		return nil
	}
	index := uint64(banVersion)
	if p.v = r.v; p.v != nil {
		index = p.v.index
	}
	p.tag = makeTag(p.tag, index)
	e := l.add(&p)
	if e == nil {
		return l.noRoom()
	}
	e.state = r.state
	if r.form == formWords {
		if !l.hasRoom(sp.slab.need(r.class), l.most/4) {
			e.state = algo.State{} // it has no block
			return l.noRoom()
		}
		e.state = algo.State{T: int64(sp.takeBlock(r.class, true)), V: uint64(r.class)}
		copy(sp.words(e), r.words)
	}
	if r.form == formListedBan || r.form == formDigestBan {
		s.maxBytes = l.most
		sp.list(p.banID(), r.text)
		s.maxBytes = 0
	}
	return nil
}

// crowded is how far a key may be from its home until its table grows. States come in the order of keys: if a save has
// added many, the first would crowd in a part of the table, and each key would push all of them on. Keys that fill
// a table evenly stay nearer.
const crowded = 1024

// add returns a new entry, or nil if there is no room. It sweeps nothing: no state that was put is fresh.
func (l *loader) add(p *location) *entry {
	sp := p.stripe
	for {
		t := sp.now
		i, _ := t.find(t.home(p.key), p.key, p.tag)
		isFull := uint64(t.used)*lastDen >= t.size*lastNum
		if !isFull && (i-t.home(p.key) < crowded || !l.hasRoom(tableBytes(largerSize(t)), 0)) && t.insert(i, p.key, p.tag, algo.State{}) {
			if p.tag>>1&versionMask != banVersion {
				sp.count(p.v, 1)
			}
			return &t.entries[i]
		}
		if !l.grow(sp) {
			return nil
		}
	}
}

func (l *loader) noRoom() error { return fmt.Errorf("%w, %d; raise it", ErrNoRoom, l.most) }

// hasRoom reports whether n more bytes fit. They may exceed the bound by some: blocks and tables can
// take a little more memory than they took when they were saved.
func (l *loader) hasRoom(n, beyond int64) bool { return l.store.bytes.Load()+n <= l.most+beyond }

// grow moves the keys of a stripe into a larger table, and reports whether there was room for it.
func (l *loader) grow(sp *stripe) bool {
	size := largerSize(sp.now)
	if !l.hasRoom(tableBytes(size), 0) {
		if size = sp.now.size + max(1, sp.now.size/4); !l.hasRoom(tableBytes(size), l.most/4) {
			return false
		}
	}
	l.store.bytes.Add(tableBytes(size))
	sp.resize(size)
	sp.move(len(sp.old.entries), l.now)
	sp.now.published = false
	return true
}

// largerSize returns the size to which a table grows, if there is room.
func largerSize(t *table) uint64 { return t.size + max(1, t.size/4*3) }

// isFresh reports whether a state equals a fresh one by now.
func (l *loader) isFresh(r *savedState) bool {
	switch {
	case r.v == nil:
		return (&algo.Ban{}).Fresh(r.state, l.now)
	case r.v.inline:
		return r.v.params.FreshState(r.state, l.now)
	default:
		return r.v.params.FreshWords(r.words, l.now)
	}
}
