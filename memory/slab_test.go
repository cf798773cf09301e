package memory

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// TestSlabAgainstModel takes and frees blocks of all sizes: no two overlap, each comes as zeros,
// and the slab grows as need reports.
func TestSlabAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := slab{last: -1}
		blocks := make(map[uint64]int)
		var refs []uint64
		for i := range 4000 {
			if n := len(refs); n > 0 && r.IntN(5) < 2 {
				j := r.IntN(n)
				ref := refs[j]
				refs[j] = refs[n-1]
				refs = refs[:n-1]
				for _, w := range s.block(ref, blocks[ref]) {
					if w != ref {
						t.Fatalf("seed %d, step %d: block %x was written by another", seed, i, ref)
					}
				}
				before := s.bytes
				if n := s.give(ref, blocks[ref]); before-s.bytes != n {
					t.Fatalf("seed %d, step %d: the slab shrank by %d, and says %d", seed, i, before-s.bytes, n)
				}
				delete(blocks, ref)
			} else {
				class := smallestBlock + int(r.ExpFloat64()*2)
				if class >= blockClasses {
					continue
				}
				before, need := s.bytes, s.need(class)
				ref := s.take(class)
				if s.bytes-before != need {
					t.Fatalf("seed %d, step %d: the slab grew by %d, and needed %d", seed, i, s.bytes-before, need)
				}
				b := s.block(ref, class)
				if len(b) != 1<<class || ref == 0 {
					t.Fatalf("seed %d, step %d: block %x of class %d has %d words", seed, i, ref, class, len(b))
				}
				for j := range b {
					if b[j] != 0 {
						t.Fatalf("seed %d, step %d: a new block holds %x", seed, i, b[j])
					}
					b[j] = ref
				}
				blocks[ref] = class
				refs = append(refs, ref)
			}
			if i%100 == 0 {
				if err := s.check(blocks); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, i, err)
				}
			}
		}
	}
}

// TestBlocksHaveTheSmallestClass: the class of a size is the smallest one that holds it.
func TestBlocksHaveTheSmallestClass(t *testing.T) {
	t.Parallel()
	for words := 1; words <= 1<<18; words = words*3/2 + 1 {
		if c := blockClass(words); 1<<c < words || c > smallestBlock && 1<<(c-1) >= words {
			t.Errorf("%d words are given a block of class %d", words, c)
		}
	}
}

// TestBlocksAreReused: states that come and go need no more memory the tenth time than the
// second.
func TestBlocksAreReused(t *testing.T) {
	t.Parallel()
	for _, a := range []sluice.Algorithm{
		sluice.SlidingLog{Rate: sluice.PerSecond(60)},
		sluice.SlidingWindow{Rate: sluice.PerSecond(60), Cells: 100},
		sluice.Concurrency{Max: 40, TTL: time.Second},
		sluice.TokenBucket{Rate: sluice.PerSecond(60), WarmUp: 100 * time.Millisecond},
	} {
		now := int64(start)
		s := open(t, &now, Options{Stripes: 1})
		l := sluice.MustLimit("blocks", a)
		var second int64
		for round := range 10 {
			for i := range 200 {
				for m := range 1 + i%40 {
					r := sluice.Request{Limit: l, Key: sluice.StringKey("u" + strconv.Itoa(i)), Cost: 1, Member: uint64(m + 1)}
					if _, err := s.Decide(t.Context(), r); err != nil {
						t.Fatal(err)
					}
				}
			}
			if round == 1 {
				second = s.Stats().Bytes
			}
			if round%3 == 0 {
				checkInvariants(t, s)
			}
			// All of them disappear, by time or by a reset.
			now += micros(time.Minute)
			for i := range 200 {
				if round%2 == 0 {
					if err := s.Reset(t.Context(), l, sluice.StringKey("u"+strconv.Itoa(i))); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if n := s.Stats().Bytes; n > second+second/4 {
			t.Errorf("%v: %d bytes in the tenth round, %d in the second", l, n, second)
		}
	}
}

// TestLargeBlocksAreReleased: a state with a chunk of its own frees its memory when it
// disappears.
func TestLargeBlocksAreReleased(t *testing.T) {
	t.Parallel()
	now := int64(start)
	s := open(t, &now, Options{Stripes: 1})
	l := sluice.MustLimit("large", sluice.SlidingLog{Rate: sluice.PerHour(20_000)})
	before := s.Stats().Bytes
	for range 20_000 {
		now++
		if !take(t, s, l, numbered(1), 1).Allowed {
			t.Fatal("denied")
		}
	}
	if d := take(t, s, l, numbered(1), 1); d.Allowed {
		t.Fatalf("one too many: %+v", d)
	}
	grown := s.Stats().Bytes
	if grown < before+20_000*16 {
		t.Fatalf("%d bytes before 20,000 entries, %d with them", before, grown)
	}
	checkInvariants(t, s)
	if err := s.Reset(t.Context(), l, numbered(1)); err != nil {
		t.Fatal(err)
	}
	if after := s.Stats().Bytes; after > before+(grown-before)/4 {
		t.Errorf("%d bytes before 20,000 entries, %d with them, %d without", before, grown, after)
	}
}
