package memory

import (
	"math/bits"
)

// savedMark remembers what was saved last about a key: its identity, and a hash of the state. If a
// state changes, its mark stays the same with a probability of 2⁻⁴⁵.
type savedMark struct {
	key, tag, state uint64
}

// Beside the hash, a tag has unused bits. markBan is set in the tag of a ban. While SaveAll is under way, markNew
// is set for a state that the earlier file lacks, and markGone for one that only the earlier file has.
const (
	markBan = 1 << iota
	markNew
	markGone

	markFlags = markBan | markNew | markGone
	flagBits  = 3
)

// A mark has three fields of these sizes: how far its key is from the key before, the hash of the tag, and the hash of the
// state with the bits. If the distance does not fit, all bits of the field are set, and eight bytes follow.
const (
	distanceBytes = 6
	tagBytes      = 5
	stateBytes    = 6
	mostMarkBytes = distanceBytes + 8 + tagBytes + stateBytes

	farAway    = 1<<(8*distanceBytes) - 1
	stateMask  = 1<<(8*stateBytes-flagBits) - 1
	markChunk  = 16 << 10
	wordOfMark = 8
)

// markList has the marks of one stripe, in the order of keys. Chunks of equal size come from the Saver, and go back to it.
type markList struct {
	chunks [][]byte
	last   uint64 // the turned key of the last mark
}

// markReader reads the marks of a list. Mark is valid while more is set.
type markReader struct {
	chunks [][]byte
	rest   []byte // of the chunk before chunks
	last   uint64
	turn   int
	mark   savedMark
	more   bool
}

// marksTurn returns by how many bits keys are turned, so that the bits which all keys of a stripe share come first.
func (v *Saver) marksTurn() int { return bits.Len(uint(len(v.store.stripes) - 1)) }

// read begins to read a list.
func (v *Saver) read(l *markList) markReader {
	r := markReader{chunks: l.chunks, turn: v.marksTurn()}
	r.next()
	return r
}

// next reads the next mark.
func (r *markReader) next() {
	for len(r.rest) == 0 {
		if r.more = len(r.chunks) > 0; !r.more {
			return
		}
		r.rest, r.chunks = r.chunks[0], r.chunks[1:]
	}
	distance := r.field(distanceBytes)
	if distance == farAway {
		distance = r.field(wordOfMark)
	}
	r.last += distance
	tag, state := r.field(tagBytes), r.field(stateBytes)
	r.mark = savedMark{bits.RotateLeft64(r.last, r.turn), tag<<hashShift | state&markFlags, state >> flagBits}
	r.more = true
}

func (r *markReader) field(n int) (x uint64) {
	for i, b := range r.rest[:n] {
		x |= uint64(b) << (8 * i)
	}
	r.rest = r.rest[n:]
	return x
}

// keep appends a mark to a list.
func (v *Saver) keep(l *markList, m savedMark) {
	n := len(l.chunks) - 1
	if n < 0 || cap(l.chunks[n])-len(l.chunks[n]) < mostMarkBytes {
		l.chunks = append(l.chunks, v.takeChunk())
		n++
	}
	c := l.chunks[n]
	key := bits.RotateLeft64(m.key, -v.marksTurn())
	distance := key - l.last
	l.last = key
	c = appendField(c, min(distance, farAway), distanceBytes)
	if distance >= farAway {
		c = appendField(c, distance, wordOfMark)
	}
	c = appendField(c, m.tag>>hashShift, tagBytes)
	l.chunks[n] = appendField(c, m.state<<flagBits|m.tag&markFlags, stateBytes)
}

func appendField(b []byte, x uint64, n int) []byte {
	for range n {
		b = append(b, byte(x))
		x >>= 8
	}
	return b
}

// takeChunk returns an empty chunk.
func (v *Saver) takeChunk() []byte {
	n := len(v.spare) - 1
	if n < 0 {
		return make([]byte, 0, markChunk)
	}
	c := v.spare[n]
	v.spare[n] = nil
	v.spare = v.spare[:n]
	return c[:0]
}

// giveBack takes the chunks of a list that nobody needs any more. It keeps as many as a list of this length needs.
func (v *Saver) giveBack(l *markList, keep int) {
	v.spare = append(v.spare, l.chunks...)
	*l = markList{}
	if most := keep + 2; len(v.spare) > most {
		clear(v.spare[most:])
		v.spare = v.spare[:most]
	}
}
