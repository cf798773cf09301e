package linearizable

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/sluicehq/sluice"
)

// A broken store reports whether its results have been wrong.
type broken interface {
	sluice.Store
	wrong() bool
}

// forgetful is a store that loses the first charge.
type forgetful struct {
	sluice.Store
	lost atomic.Bool
}

func (f *forgetful) wrong() bool { return f.lost.Load() }

func (f *forgetful) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if r.Peek || r.Cost == 0 || f.lost.Load() {
		return f.Store.Decide(ctx, r)
	}
	r.Peek = true
	d, err := f.Store.Decide(ctx, r)
	if err == nil && d.Allowed && f.lost.CompareAndSwap(false, true) {
		d.Remaining -= r.Cost
		return d, nil
	}
	r.Peek = false
	return f.Store.Decide(ctx, r)
}

// torn is a store that decides the requests of a batch one after the other.
type torn struct {
	sluice.Store
	part atomic.Bool
}

func (s *torn) wrong() bool { return s.part.Load() }

func (s *torn) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	for i := range rs {
		d, err := s.Decide(ctx, rs[i])
		if err != nil {
			return err
		}
		out[i] = d
	}
	if len(out) == 2 && out[0].Allowed != out[1].Allowed {
		s.part.Store(true)
	}
	return nil
}

// stale is a store that answers every peek at a key as it answered the first one.
type stale struct {
	sluice.Store
	mu    sync.Mutex
	first map[string]sluice.Decision
	last  map[string]bool // whether the last answer was wrong
}

func (s *stale) wrong() bool {
	for _, wrong := range s.last {
		if wrong {
			return true
		}
	}
	return false
}

func (s *stale) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	if !r.Peek {
		return s.Store.Decide(ctx, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := r.Key.Text()
	d, err := s.Store.Decide(ctx, r)
	if first, ok := s.first[k]; ok {
		s.last[k] = first != d
		return first, err
	}
	s.first[k] = d
	return d, err
}

// TestBrokenStores checks the checks: they must find each history in which a store was wrong.
func TestBrokenStores(t *testing.T) {
	stores := []struct {
		name    string
		batches bool
		wrap    func(sluice.Store) broken
	}{
		{"loses a charge", false, func(s sluice.Store) broken { return &forgetful{Store: s} }},
		{"loses a charge between batches", true, func(s sluice.Store) broken { return &forgetful{Store: s} }},
		{"charges a part of a batch", true, func(s sluice.Store) broken { return &torn{Store: s} }},
		{"answers with old results", false, func(s sluice.Store) broken {
			return &stale{Store: s, first: map[string]sluice.Decision{}, last: map[string]bool{}}
		}},
	}
	for _, b := range stores {
		for _, s := range subjects {
			t.Run(b.name+"/"+s.name, func(t *testing.T) {
				model := keyModel(s.fresh)
				if b.batches {
					model = pairModel(s.fresh)
				}
				found := 0
				for seed := range uint64(20) {
					var store broken
					p := plan{seed: seed, phases: 1, batches: b.batches, costly: true}
					history := record(t, &s, p, func(s sluice.Store) sluice.Store {
						store = b.wrap(s)
						return store
					})
					if !store.wrong() {
						continue
					}
					found++
					if got := porcupine.CheckOperationsTimeout(model, history, patience); got != porcupine.Illegal {
						t.Fatalf("the history of %+v is %v", p, got)
					}
				}
				if found == 0 {
					t.Fatal("the store was never wrong")
				}
			})
		}
	}
}
