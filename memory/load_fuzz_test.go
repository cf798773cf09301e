package memory

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/translate"
)

// FuzzLoad loads blocks with any content and correct checksums. Load refuses them, or makes a store that
// works: it never ends the program.
func FuzzLoad(f *testing.F) {
	now := int64(start)
	_, file := everything(f, &now)
	var kinds, contents []byte
	in := blockReader{r: bytes.NewReader(file)}
	if err := in.preamble(); err != nil {
		f.Fatal(err)
	}
	for {
		kind, content, err := in.next()
		if err != nil {
			break
		}
		kinds = append(kinds, kind)
		contents = append(binary.AppendUvarint(contents, uint64(len(content))), content...)
	}
	f.Add(kinds, contents)
	f.Fuzz(func(t *testing.T, kinds, contents []byte) {
		var file bytes.Buffer
		out := blockWriter{w: &file}
		if err := out.preamble(); err != nil {
			t.Fatal(err)
		}
		var block []byte
		for _, kind := range kinds {
			n, used := binary.Uvarint(contents)
			if used <= 0 || n > uint64(len(contents)-used) {
				break
			}
			block = append(newBlock(kind, block), contents[used:used+int(n)]...)
			contents = contents[used+int(n):]
			if err := out.put(block); err != nil {
				t.Fatal(err)
			}
		}
		now := int64(start)
		s, _, err := Load(&file, Options{Clock: func() int64 { return now }, MaxBytes: leastBytes, Stripes: 1})
		if err != nil {
			for _, known := range []error{ErrDamaged, ErrNoRoom} {
				if errors.Is(err, known) {
					return
				}
			}
			t.Fatal(err)
		}
		checkInvariants(t, s)
		// Decide from each state, by its entry: its key is unknown.
		for i := range s.stripes {
			var w walk
			for w.begin(&s.stripes[i]); !w.done; {
				if err := w.part(); err != nil {
					t.Fatal(err)
				}
				for _, c := range w.copies {
					if c.v != nil {
						decideLoaded(s, &c)
					}
				}
			}
		}
		checkInvariants(t, s)
		if err := s.Save(new(bytes.Buffer)); err != nil {
			t.Fatal(err)
		}
		for range 1000 { // sweeps
			now += 1_000_000
			take(t, s, fuzzLimits[0], numbered(1), 1)
		}
	})
}

// decideLoaded makes decisions from a loaded state, at several times.
func decideLoaded(s *Store, c *savedEntry) {
	p := location{key: c.key, tag: makeTag(c.tag, c.v.index), v: c.v, stripe: s.stripeOf(c.key)}
	for _, back := range []int64{1, 0, -1, -1000} {
		sp := p.stripe
		sp.lock()
		if e := sp.lookup(&p); e != nil {
			r := sluice.Request{Limit: c.v.limit, Cost: 1, Member: 1}
			req := translate.Request(&r)
			req.Now = start - back*10_000_000
			sp.decide(&p, &r, &req)
		}
		sp.unlock()
	}
}
