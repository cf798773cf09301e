package memory

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// TestRetagWaitsForTheLockBit: a tag is never written over a lock bit that was just taken.
// Otherwise two goroutines would hold the entry once the tag comes back.
func TestRetagWaitsForTheLockBit(t *testing.T) {
	var e entry
	tag, other := makeTag(1<<40, 2), makeTag(1<<40, 3)
	e.put(7, tag, algo.State{})
	if !e.lock(tag) {
		t.Fatal("the entry cannot be locked")
	}
	retagged := make(chan struct{})
	go func() {
		defer close(retagged)
		e.retag(other)
		e.retag(tag)
	}()
	for range 1000 {
		select {
		case <-retagged:
			t.Fatal("the tag was changed under the lock bit")
		default:
		}
		if got := e.tag.Load(); got != tag|lockBit {
			t.Fatalf("the tag is %x, and was locked as %x", got, tag|lockBit)
		}
	}
	e.unlock(tag)
	<-retagged
	if got := e.tag.Load(); got != tag {
		t.Errorf("the tag is %x, want %x", got, tag)
	}
}

// TestVersionsInTurnAdmitNoMore uses one key under two versions of its limit at once, so that its
// entry is retagged all the time.
func TestVersionsInTurnAdmitNoMore(t *testing.T) {
	const burst = 3000
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	limits := [2]*sluice.Limit{
		sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: burst}),
		sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerDay(2), Burst: burst}),
	}
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := range burst {
				d, err := s.Take(t.Context(), limits[(g+i/7)%2], sluice.StringKey("k"), 1)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != burst {
		t.Errorf("admitted %d of %d", n, burst)
	}
}

// TestLongWaitsAreClamped: a wait that a time.Duration cannot hold is the longest time.Duration.
func TestLongWaitsAreClamped(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.Per(1, 30*24*3600e9), Burst: 5000})
	for want := range 2 {
		d, err := s.Take(t.Context(), l, sluice.StringKey("k"), 5000)
		if err != nil || d.Allowed == (want == 1) || d.ResetAfter != translate.Duration(1<<62) || want == 1 && d.RetryAfter != translate.Duration(1<<62) {
			t.Errorf("want the longest duration as wait, got %+v, %v", d, err)
		}
	}
}

// TestMemoryOfOneSizeServesAnother: memory of states of one size is available to states of
// another size once they are forgotten.
func TestMemoryOfOneSizeServesAnother(t *testing.T) {
	var s slab
	s.last = -1
	refs := make([]uint64, 1000)
	for i := range refs {
		refs[i] = s.take(5)
	}
	var freed int64
	for _, ref := range refs {
		freed += s.give(ref, 5)
	}
	if freed == 0 || s.bytes != 0 {
		t.Errorf("%d bytes were given back, %d are kept", freed, s.bytes)
	}
}
