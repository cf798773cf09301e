package sluice_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/soak"
)

// A key has the parts that it was made of, whatever bytes they hold.
func TestKeysHaveTheirParts(t *testing.T) {
	for _, parts := range [][]string{
		nil,
		{""},
		{"a"},
		{"", ""},
		{"a:b", "c"},
		{"a", "b:c"},
		{"a", "b", "c"},
		{"\x00", ""},
		{"", "\x00"},
		{strings.Repeat("x", 300), "y"},
		{strings.Repeat("x", 70_000), ""},
		{"\x01a"},
		{"", "\x01a"},
		{"\xff", "\xfe\xfd"},
	} {
		k := sluice.NewKey(parts...)
		if k.Len() != len(parts) || !slices.Equal(k.Parts(), parts) {
			t.Errorf("%q became %d parts, %q", parts, k.Len(), k.Parts())
		}
		if k != sluice.EncodedKey(k.Text(), k.Len()) {
			t.Errorf("%q is not what its text encodes", parts)
		}
		if k.String() != strings.Join(parts, " · ") {
			t.Errorf("%q is written %q", parts, k)
		}
	}
	if sluice.NewKey() != (sluice.Key{}) || sluice.NewKey("a") != sluice.StringKey("a") || sluice.NewKey("") == (sluice.Key{}) {
		t.Error("short keys are not what they should be")
	}
}

// TestEncodedKey: a text that encodes nothing has no parts.
func TestEncodedKey(t *testing.T) {
	text := sluice.AppendKeyPart(sluice.AppendKeyPart(nil, "user"), "route")
	if k := sluice.EncodedKey(string(text), 2); k != sluice.NewKey("user", "route") {
		t.Errorf("%q is %v", text, k)
	}
	for _, k := range []sluice.Key{
		sluice.EncodedKey("\x05abc", 2), sluice.EncodedKey("\x80", 2), sluice.EncodedKey("\x01a", 2),
		sluice.EncodedKey("\x01a\x01b\x01c", 2), sluice.EncodedKey("", 2), sluice.EncodedKey("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 3),
		sluice.EncodedKey("", math.MaxInt),
	} {
		if parts := k.Parts(); parts != nil {
			t.Errorf("%q has the parts %q", k.Text(), parts)
		}
	}
}

// TestKeysDiffer: many tuples with the usual delimiters in them make as many keys; by night, a million.
func TestKeysDiffer(t *testing.T) {
	n := soak.Times(t, 100_000)
	alphabet := []byte("_:/{}\x00\x01a")
	r := rand.New(rand.NewPCG(1, 2))
	seen := make(map[sluice.Key]uint64, n)
	for len(seen) < n {
		// The tuple as a number: the ends of its parts, and their bytes.
		var parts []string
		id := uint64(1)
		for range r.IntN(4) {
			part := make([]byte, r.IntN(5))
			for i := range part {
				c := r.IntN(len(alphabet))
				part[i] = alphabet[c]
				id = id*9 + uint64(c) + 1
			}
			parts = append(parts, string(part))
			id *= 9
		}
		k := sluice.NewKey(parts...)
		if other, ok := seen[k]; ok && other != id {
			t.Fatalf("%q has the key of another tuple", parts)
		}
		seen[k] = id
		if len(seen)%1000 == 0 && !slices.Equal(k.Parts(), parts) {
			t.Fatalf("%q is read as %q", parts, k.Parts())
		}
	}
	ids := make(map[uint64]bool, n)
	for _, id := range seen {
		if ids[id] {
			t.Fatal("one tuple has two keys")
		}
		ids[id] = true
	}
}

// FuzzKey: the parts of a key are the parts from which it was made.
func FuzzKey(f *testing.F) {
	f.Add([]byte("\x01a\x02b:c"))
	f.Add([]byte("\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var parts []string
		for len(data) > 0 {
			n := min(int(data[0]), len(data)-1)
			parts = append(parts, string(data[1:1+n]))
			data = data[1+n:]
		}
		k := sluice.NewKey(parts...)
		if k.Len() != len(parts) || !slices.Equal(k.Parts(), parts) {
			t.Fatalf("%q became %q", parts, k.Parts())
		}
	})
}

// FuzzEncodedKey: the parts read from a text encode to that text.
func FuzzEncodedKey(f *testing.F) {
	f.Add("\x01a\x01b", 2)
	f.Add("", 0)
	f.Add("", -1)
	f.Fuzz(func(t *testing.T, text string, n int) {
		parts := sluice.EncodedKey(text, n).Parts()
		if n < 2 || parts == nil {
			return
		}
		var again []byte
		for _, p := range parts {
			again = sluice.AppendKeyPart(again, p)
		}
		if len(parts) != n || !bytes.Equal(again, canonical(text)) {
			t.Fatalf("%q is read as %q", text, parts)
		}
	})
}

// canonical returns the encoding with its lengths in their shortest form.
func canonical(text string) (out []byte) {
	for rest := []byte(text); len(rest) > 0; {
		size, n := binary.Uvarint(rest)
		out = sluice.AppendKeyPart(out, string(rest[n:n+int(size)]))
		rest = rest[n+int(size):]
	}
	return out
}
