package overrides

import (
	"hash/maphash"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/redisstore"
)

// texts has the last record of each name. The records are one after the other in chunks, as in a journal, and the collector sees no
// pointer for any of them. The zero texts is empty.
type texts struct {
	chunks [][]byte
	at     map[uint64]position // of the last record of a name, by its hash, or by a number soon after it
	bytes  int                 // in all chunks
	live   int                 // bytes of the last records, without removals
}

// position says where a record begins.
type position struct{ chunk, index uint32 }

const chunkSize = 1 << 16

// seed is of the hashes of names.
var seed = maphash.MakeSeed()

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

// find returns the number of a name in at, and the bytes from its record on; nil if it has none.
func (t *texts) find(name string) (number uint64, in []byte) {
	for number = maphash.String(seed, name); ; number++ {
		p, known := t.at[number]
		if !known {
			return number, nil
		}
		in = t.chunks[p.chunk][p.index:]
		if found, _, _ := cutPart(in); string(found) == name { // set wrote it
			return number, in
		}
	}
}

// get returns the record of a name; Removed if there is none.
func (t *texts) get(name string) redisstore.Record {
	if _, in := t.find(name); in != nil {
		r, _, _ := recordAt(in)
		return r
	}
	return redisstore.Record{Name: name, Removed: true}
}

// set keeps a record, in place of the record that its name has.
func (t *texts) set(r redisstore.Record) {
	number, before := t.find(r.Name)
	if was, rest, _ := recordAt(before); before != nil && !was.Removed {
		t.live -= len(before) - len(rest)
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
	if t.at == nil {
		t.at = map[uint64]position{}
	}
	t.at[number] = position{uint32(last), uint32(len(t.chunks[last]))}
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

// each calls a function with each record that is not a removal.
func (t *texts) each(f func(redisstore.Record) bool) {
	for _, p := range t.at {
		if r, _, _ := recordAt(t.chunks[p.chunk][p.index:]); !r.Removed && !f(r) {
			return
		}
	}
}
