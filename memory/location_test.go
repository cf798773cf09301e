package memory

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestHashesSpread checks that no seeds crowd keys that differ in few bits: in a table as full as tables
// get, no key is further from its home than the room at the end of a table allows. The seeds are fixed, and
// hashes of one multiplication fail with some of them.
func TestHashesSpread(t *testing.T) {
	t.Parallel()
	const stripes, perStripe, size = 8, 1000, 1000 * loadDen / loadNum
	random := rand.New(rand.NewPCG(1, 2))
	for _, form := range []string{"%d", "%08d", "user-%d", "customer:%05d", "10.0.0.%d", "a key that is longer than that: %d"} {
		keys := make([]string, stripes*perStripe)
		for i := range keys {
			keys[i] = fmt.Sprintf(form, i)
		}
		for range 500 {
			f := folded{[4]uint64{random.Uint64() | 1, random.Uint64() | 1, random.Uint64() | 1, random.Uint64() | 1}}
			var hashes []uint64
			for _, key := range keys {
				if h := f.hash(key); h%stripes == 0 {
					hashes = append(hashes, h)
				}
			}
			slices.Sort(hashes)
			position, furthest := -1, 0
			for _, h := range hashes {
				home, _ := bits.Mul64(h, size)
				position = max(position+1, int(home))
				furthest = max(furthest, position-int(home))
			}
			if furthest > slack || len(hashes) > perStripe*5/4 {
				t.Fatalf("%s: under the seeds %x, %d of %d keys are in one of %d stripes, and one is %d positions from its home", form, f.seed, len(hashes), len(keys), stripes, furthest)
			}
		}
	}
}
