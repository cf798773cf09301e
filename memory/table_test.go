package memory

import (
	"math/rand/v2"
	"testing"

	"github.com/sluicehq/sluice/internal/algo"
)

// modelKey identifies an entry of the table's model.
type modelKey struct{ key, hash uint64 }

// TestTableAgainstMap inserts and removes random keys, many with the same first half, and
// compares the table with a map.
func TestTableAgainstMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 0))
		size := uint64(8 << r.IntN(6))
		tab := newTable(size)
		model := make(map[modelKey]algo.State)
		firsts := make([]uint64, 1+r.IntN(int(size)))
		for i := range firsts {
			firsts[i] = r.Uint64() | 1
			if r.IntN(4) == 0 {
				firsts[i] = ^uint64(0) - uint64(r.IntN(4)) // at the end, without a home of their own
			}
		}
		for range 3000 {
			id := modelKey{firsts[r.IntN(len(firsts))], uint64(r.IntN(3))}
			tag := makeTag(id.hash<<hashShift, uint64(2+r.IntN(3)))
			i, found := tab.find(tab.home(id.key), id.key, tag)
			state, want := model[id]
			if found != want || found && tab.entries[i].state != state {
				t.Fatalf("seed %d: find %v: %v, %v; want %v, %v", seed, id, found, tab.entries[i].state, want, state)
			}
			switch {
			case found && r.IntN(2) == 0:
				tab.remove(i)
				delete(model, id)
			case found:
				tab.entries[i].state.V++
				state.V++
				model[id] = state
			case uint64(len(model))*fullDen < size*fullNum:
				state = algo.State{T: r.Int64(), V: r.Uint64()}
				if !tab.insert(i, id.key, tag, state) {
					t.Fatalf("seed %d: no room for %d keys of %d", seed, len(model)+1, size)
				}
				model[id] = state
			}
			if tab.used != len(model) {
				t.Fatalf("seed %d: %d entries used, want %d", seed, tab.used, len(model))
			}
		}
	}
}

// TestFullTable: a table without a free entry refuses a key and keeps those it has.
func TestFullTable(t *testing.T) {
	t.Parallel()
	tab := newTable(8)
	n := uint64(0)
	for ; ; n++ {
		i, found := tab.find(tab.home(n+1), n+1, 0)
		if found {
			t.Fatalf("key %d is found before it was put", n+1)
		}
		if !tab.insert(i, n+1, n<<hashShift, algo.State{}) {
			break
		}
	}
	if n < 8 || tab.used != int(n) {
		t.Fatalf("%d keys fit, %d are counted", n, tab.used)
	}
	for k := range n {
		if _, found := tab.find(tab.home(k+1), k+1, k<<hashShift); !found {
			t.Errorf("key %d is lost", k+1)
		}
	}
	if _, found := tab.find(tab.home(^uint64(0)), ^uint64(0), 0); found {
		t.Error("a key that was not put is found")
	}
}

// TestStripeAgainstMap adds and removes keys while their table is moved into others of random
// sizes, a few entries at a time.
func TestStripeAgainstMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		now := int64(start)
		s := open(t, &now, Options{Stripes: 1})
		v := s.version(lasting("stripe", 1000))
		sp := &s.stripes[0]
		r := rand.New(rand.NewPCG(seed, 1))
		firsts := make([]uint64, 600)
		for i := range firsts {
			firsts[i] = r.Uint64() | 1
		}
		model := make(map[modelKey]uint64)
		for i := range 6000 {
			sp.lock()
			id := modelKey{firsts[r.IntN(len(firsts))], uint64(r.IntN(2))}
			p := location{id.key, makeTag(id.hash<<hashShift, v.index), v, sp}
			e := sp.lookup(&p)
			want, ok := model[id]
			if (e != nil) != ok || ok && e.state.V != want {
				t.Fatalf("seed %d, step %d: found %v, want %v", seed, i, e, ok)
			}
			switch n := r.IntN(10); {
			case n < 5 && e == nil:
				if e = sp.add(&p, now, false); e == nil {
					t.Fatalf("seed %d, step %d: no room for a key, with %d", seed, i, len(model))
				}
				e.state = algo.State{T: now, V: uint64(i + 1)}
				model[id] = uint64(i + 1)
			case n < 7 && e != nil:
				sp.remove(&p)
				delete(model, id)
			case n == 7 && sp.old == nil:
				size := uint64(len(model))*2 + uint64(r.IntN(2000))
				if s.grow(tableBytes(size + firstSize)) {
					sp.resize(size + firstSize)
				}
			case n == 8:
				if sp.worked = 0; sp.old != nil {
					sp.move(1+r.IntN(40), now)
				} else {
					sp.sweep(r.IntN(10), 0, now)
				}
			}
			if sp.keys() != len(model) {
				t.Fatalf("seed %d, step %d: %d keys, want %d", seed, i, sp.keys(), len(model))
			}
			sp.unlock()
			if i%100 == 0 {
				checkInvariants(t, s)
			}
		}
	}
}
