package memory

import (
	"runtime"
	"sync"
	"testing"

	"github.com/sluicehq/sluice"
)

// Fetch changes nothing, whether the key has a state or not, while keys are added, and after Close. It does not allocate.
func TestFetchChangesNothing(t *testing.T) {
	now := int64(start)
	s := open(t, &now, Options{Stripes: 2})
	l, never := lasting("l", 1_000_000), lasting("never", 5)
	var adding sync.WaitGroup
	adding.Go(func() {
		for i := range 5_000 {
			take(t, s, l, numbered(i), 1)
		}
	})
	for i := range 5_000 {
		s.Fetch(l, numbered(i))
		s.Fetch(never, sluice.Key{})
		if i%64 == 0 {
			runtime.Gosched()
		}
	}
	adding.Wait()
	if st := s.Stats(); st.Keys != 5_000 || st.Limits != 1 {
		t.Errorf("there are %d keys of %d limits, want the 5000 of one limit that requests have added", st.Keys, st.Limits)
	}
	if d := take(t, s, l, numbered(0), 1); d.Remaining != 999_998 {
		t.Errorf("after two requests, %d units are left, want 999998", d.Remaining)
	}
	k := numbered(1)
	if n := testing.AllocsPerRun(100, func() { s.Fetch(l, k) }); n != 0 {
		t.Errorf("Fetch allocates %v times, want 0", n)
	}
	closed, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	closed.Fetch(l, k)
}
