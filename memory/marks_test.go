package memory

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMarksAreReadAsTheyWereKept: near and far keys, equal keys, all bits of the fields, and lists longer than a chunk.
func TestMarksAreReadAsTheyWereKept(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, stripes := range []int{1, 8, mostStripes} {
		now := int64(start)
		v := open(t, &now, Options{Stripes: stripes}).NewSaver()
		for _, n := range []int{0, 1, 5, 20_000} {
			keys := make([]uint64, n)
			for i := range keys {
				if keys[i] = r.Uint64() >> (i % 3 * 20); i%7 == 6 {
					keys[i] = keys[i-1]
				}
				keys[i] = keys[i]&^uint64(stripes-1) | uint64(stripes/2)
			}
			slices.Sort(keys)
			want := make([]savedMark, n)
			var l markList
			for i, k := range keys {
				want[i] = savedMark{k, r.Uint64()>>hashShift<<hashShift | r.Uint64()&markFlags, r.Uint64() & stateMask}
				v.keep(&l, want[i])
			}
			got := []savedMark{}
			for m := v.read(&l); m.more; m.next() {
				got = append(got, m.mark)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d stripes: %d marks are read otherwise", stripes, n)
			}
			v.giveBack(&l, len(l.chunks))
		}
	}
}
