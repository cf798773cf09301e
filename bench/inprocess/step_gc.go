package inprocess

import (
	"fmt"
	"math"
	"runtime"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/bench/floor"
	"github.com/sluicehq/sluice/bench/peers"
)

// measureGC times collections while our store holds many keys, and then while only floor-tables of the
// same bytes exist.
func measureGC(b *bench) error {
	for _, s := range sluiceSubjects() {
		if !b.Wants("gc", s.name) {
			continue
		}
		bytes, err := measureGCOf(b, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		b.results.Set("gc-bytes", s.name, figures.Once(float64(bytes)))
		tables := tablesOf(bytes)
		runtime.GC()
		b.results.Set("gc", floorTable, collections(b.gcCycles))
		total := 0
		for _, t := range tables {
			total += t.Bytes()
		}
		b.results.Set("gc-bytes", floorTable, figures.Once(float64(total)))
	}
	return nil
}

// measureGCOf times collections and returns the bytes of the subject.
func measureGCOf(b *bench, s subject) (int64, error) {
	base := liveHeap()
	l, err := s.open(liveLimit, b.gcKeys)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	if err := takeAll(l, b.gcKeys); err != nil {
		return 0, err
	}
	bytes := liveHeap() - base
	b.results.Set("gc", s.name, collections(b.gcCycles))
	runtime.KeepAlive(l)
	return bytes, nil
}

func takeAll(l peers.Limiter, keys int) error {
	for i := range keys {
		if !l.Take(key(i)) {
			return fmt.Errorf("denied the first request of key %d", i)
		}
	}
	return nil
}

// tablesOf returns filled floor-tables that together occupy the given bytes,
// to within a mebibyte. A table's size is a power of two, so there are several.
func tablesOf(bytes int64) []*floor.Table {
	var tables []*floor.Table
	for size := int64(1) << 40; size >= 1<<20; size /= 2 {
		if bytes&size == 0 {
			continue
		}
		t := floor.NewTable(int(size/16), math.MaxInt64)
		for i := range t.Len() / 2 {
			t.Take(key(i))
		}
		tables = append(tables, t)
	}
	return tables
}
