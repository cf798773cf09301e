package keys

import "math"

// Recent has the answers of some searches in large tables, which may be in no cache of the processor: a key that comes
// often needs no search. The zero Recent is empty. It is not safe for concurrent use.
type Recent[V comparable] struct {
	answers  *[256]answer[V] // nil until there is one
	searches uint
}

// answer is what a search has found in a version of a table: a value, or none. It fills a cache line.
type answer[V comparable] struct {
	version uint64
	value   V
	hash    uint32
	parts   uint16
	length  uint8
	found   bool
	text    [40]byte
}

// changing is the version of a table while it changes. No answer has it.
const changing = math.MaxUint64

// answered is which searches leave an answer: one of so many, because most keys do not come again.
const answered = 8

// FindOften is Find with the answers of earlier searches. It calls ahead before it searches a large table. The answer
// is kept only if ahead reports that little more than the search is to be done.
func (t *Table[V]) FindOften(k Ref, b *Buffer, r *Recent[V], ahead func() bool) (v V, found bool) {
	version := t.version.Load() // before the keys: its answers hold for this search
	c := t.core.Load()
	if c == nil {
		return v, false
	}
	text, parts := k.view(b), k.len()
	hash := c.hash(text, parts)
	if len(c.marks) < large {
		return c.value(c.find(text, parts, hash))
	}
	at, short := hash%uint64(len(r.answers)), uint32(hash>>32)
	if r.answers != nil {
		if a := &r.answers[at]; a.version == version && a.hash == short && int(a.parts) == parts && string(a.text[:a.length]) == text {
			return a.value, a.found
		}
	}
	c.fetch(hash)
	quick := ahead()
	v, found = c.value(c.find(text, parts, hash))
	if r.searches++; !quick || r.searches%answered != 0 || version == changing || t.version.Load() != version {
		return v, found
	}
	if r.answers == nil {
		r.answers = new([256]answer[V])
	}
	if a := &r.answers[at]; len(text) <= len(a.text) {
		*a = answer[V]{version: version, value: v, hash: short, parts: uint16(parts), length: uint8(len(text)), found: found}
		copy(a.text[:], text)
	}
	return v, found
}
