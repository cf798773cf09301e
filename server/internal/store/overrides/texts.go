package overrides

import (
	"hash/maphash"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/redisstore"
)

// texts has the last record of each name. The records are one after the other in chunks, as in a journal, without a pointer or a
// string for each. The zero texts is empty.
type texts struct {
	seed      maphash.Seed
	chunks    [][]byte
	positions []position // of the last record of a name, by its hash
	names     int
	bytes     int // in all chunks
	live      int // bytes of the last records, without removals
}

// position says where a record is: 16 bits of the hash of its name, 24 of its chunk, and 24 of the index there, plus one. It is zero
// for none.
type position uint64

const (
	indexMask = 1<<24 - 1 // of an index, and of a chunk once it is shifted
	hashMask  = 1<<64 - 1<<48
)

const chunkSize = 1 << 16

// partsOf appends a record to a journal or a chunk.
func partsOf(dst []byte, r *redisstore.Record) []byte {
	removed := ""
	if r.Removed {
		removed = "-"
	}
	for _, part := range []string{r.Name, r.Text, removed} {
		dst = sluice.AppendKeyPart(dst, part)
	}
	return dst
}

// recordAt reads the record at the begin of an encoding, and returns the rest.
func recordAt(in []byte) (r redisstore.Record, rest []byte, err error) {
	var parts [3][]byte
	for i := range parts {
		if parts[i], in, err = cutPart(in); err != nil {
			return r, nil, err
		}
	}
	return redisstore.Record{Name: string(parts[0]), Text: string(parts[1]), Removed: len(parts[2]) > 0}, in, nil
}

// at returns the bytes from a position on.
func (t *texts) at(p position) []byte { return t.chunks[p>>24&indexMask][p&indexMask-1:] }

// find returns the index of the position for a name, and the part of the name's hash.
func (t *texts) find(name string) (i int, hash position) {
	h := maphash.String(t.seed, name)
	hash = position(h & hashMask)
	for i = int(h % uint64(len(t.positions))); t.positions[i] != 0; i = (i + 1) % len(t.positions) {
		if p := t.positions[i]; p&hashMask == hash {
			if found, _, _ := cutPart(t.at(p)); string(found) == name {
				break
			}
		}
	}
	return i, hash
}

// get returns the record of a name; Removed if there is none.
func (t *texts) get(name string) redisstore.Record {
	if t.names > 0 {
		i, _ := t.find(name)
		if p := t.positions[i]; p != 0 {
			r, _, _ := recordAt(t.at(p)) // set wrote it
			return r
		}
	}
	return redisstore.Record{Name: name, Removed: true}
}

// set keeps a record, in place of the record that its name has.
func (t *texts) set(r redisstore.Record) {
	if t.names >= len(t.positions)/4*3 {
		t.resize(max(64, len(t.positions)*2))
	}
	i, hash := t.find(r.Name)
	if p := t.positions[i]; p == 0 {
		t.names++
	} else {
		t.live -= t.sizeAt(p)
	}
	if r.Removed {
		r.Text = ""
	}
	one := partsOf(nil, &r)
	last := len(t.chunks) - 1
	if last < 0 || len(t.chunks[last])+len(one) > cap(t.chunks[last]) {
		t.chunks = append(t.chunks, make([]byte, 0, max(chunkSize, len(one))))
		last++
	}
	t.positions[i] = hash | position(last)<<24 | position(len(t.chunks[last])+1)
	t.chunks[last] = append(t.chunks[last], one...)
	if t.bytes += len(one); !r.Removed {
		t.live += len(one)
	}
	if t.bytes > 2*t.live+chunkSize {
		n := texts{}
		for r := range t.each {
			n.set(r)
		}
		*t = n
	}
}

// sizeAt returns how many bytes a record takes; zero for a removal.
func (t *texts) sizeAt(p position) int {
	in := t.at(p)
	if r, rest, _ := recordAt(in); !r.Removed {
		return len(in) - len(rest)
	}
	return 0
}

// resize makes room for the positions of more names.
func (t *texts) resize(n int) {
	before := t.positions
	t.seed, t.positions = maphash.MakeSeed(), make([]position, n)
	for _, p := range before {
		if p != 0 {
			name, _, _ := cutPart(t.at(p))
			i, hash := t.find(string(name))
			t.positions[i] = hash | p&^hashMask
		}
	}
}

// each calls a function with each record that is not a removal.
func (t *texts) each(f func(redisstore.Record) bool) {
	for _, p := range t.positions {
		if p == 0 {
			continue
		}
		if r, _, _ := recordAt(t.at(p)); !r.Removed && !f(r) {
			return
		}
	}
}
