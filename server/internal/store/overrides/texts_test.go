package overrides

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/redisstore"
)

// The texts of records are what a map has, after any changes, with names and texts of any length.
func TestTextsAreAMap(t *testing.T) {
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 2))
		var all texts
		truth := map[string]string{}
		spread := 1 + random.IntN(2000)
		for step := range 20_000 {
			name := fmt.Sprint("n", random.IntN(spread))
			if random.IntN(500) == 0 {
				name += strings.Repeat("x", random.IntN(2*chunkSize))
			}
			want, known := truth[name]
			if r := all.get(name); r.Name != name || r.Text != want || r.Removed == known {
				t.Fatalf("seed %d, step %d: the record has %d bytes, removed %t; want %q, %t", seed, step, len(r.Text), r.Removed, want, !known)
			}
			r := redisstore.Record{Name: name, Text: fmt.Sprint(step, strings.Repeat("t", random.IntN(200))), Removed: random.IntN(3) == 0}
			if all.set(r); r.Removed {
				delete(truth, name)
			} else {
				truth[name] = r.Text
			}
		}
		n := 0
		for r := range all.each {
			if n++; truth[r.Name] != r.Text || r.Removed {
				t.Fatalf("seed %d: the text of a record has %d bytes, want %q", seed, len(r.Text), truth[r.Name])
			}
		}
		if n != len(truth) {
			t.Errorf("seed %d: there are %d records, want %d", seed, n, len(truth))
		}
		for name := range truth {
			all.set(redisstore.Record{Name: name, Removed: true})
		}
		for range 2 {
			all.set(redisstore.Record{Name: strings.Repeat("y", chunkSize), Removed: true})
		}
		if all.bytes > 2*chunkSize || len(all.at) > 2 {
			t.Errorf("seed %d: after all are removed, %d names take %d bytes", seed, len(all.at), all.bytes)
		}
	}
}

// Many records take little more memory than their bytes, also after they have changed.
func TestTextsTakeLittleMemory(t *testing.T) {
	const n = 50_000
	heap := func() (m runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m
	}
	before := heap().HeapAlloc
	all, size := new(texts), 0
	for round := range 3 {
		for i := range n {
			r := redisstore.Record{Name: fmt.Sprintf("tenants %08d", i), Text: fmt.Sprintf(`{"limit":{"rate":"%d00/m"}} ann@desk`, round)}
			all.set(r)
			size += len(partsOf(nil, &r))
		}
	}
	used := int64(heap().HeapAlloc) - int64(before)
	if most := int64(size*2/3 + n*40); used > most {
		t.Errorf("%d records of %d bytes take %d bytes, want %d at most", n, size/3/n, used, most)
	}
	runtime.KeepAlive(all)
}
