package inprocess

import (
	"testing"

	"github.com/sluicehq/sluice/bench/figures"
)

func TestKeysInProcessDiffer(t *testing.T) {
	const n = 200_000
	seen := make(map[string]bool, n)
	for i := range n {
		k := key(i)
		if len(k) != keyLen || seen[k] {
			t.Fatalf("key %d is %q: seen before, or not of %d bytes", i, k, keyLen)
		}
		seen[k] = true
	}
}

func TestStreamHoldsTheDraws(t *testing.T) {
	i := 0
	s := newStream(5, func() int { i++; return i })
	var got recorder
	if n := s.take(&got); n != 5 {
		t.Errorf("%d decisions, want 5", n)
	}
	for i, k := range got {
		if k != key(i+1) {
			t.Errorf("request %d has key %q, want %q", i, k, key(i+1))
		}
	}
}

type recorder []string

func (r *recorder) Take(key string) bool {
	*r = append(*r, key)
	return true
}

func TestDrawsStayInRange(t *testing.T) {
	const n = 1000
	for name, draw := range map[string]func() int{"zipf": zipfDraw(n, 1), "uniform": uniformDraw(n, 1)} {
		count := make([]int, n)
		for range 100_000 {
			count[draw()]++
		}
		if busiest := count[0]; (busiest > 10_000) != (name == "zipf") {
			t.Errorf("%s: key 0 got %d of 100000 requests", name, busiest)
		}
	}
}

// TestBarsInProcess checks that figures at a bar hold, that figures just beyond it do not, and that a bar without
// figures is not measured.
func TestBarsInProcess(t *testing.T) {
	judge := func(r figures.Results) []figures.Bar { return append(judgeMemory(r), judgeHTTP(r)...) }
	measured := func(excess float64) figures.Results {
		r := figures.Results{}
		for _, f := range []struct {
			metric, subject string
			value           float64
		}{
			{"zipf", floorDecision, 100},
			{"zipf", sluiceName, 135 + excess},
			{"zipf", "throttled", 297},
			{"uniform", floorDecision, 100},
			{"uniform", sluiceName, 120 + excess},
			{"uniform", "throttled", 264},
			{"returning-zipf", sluiceName, 115 + excess},
			{"returning-zipf", liveKeys, 100},
			{"returning-zipf", "throttled", 230},
			{"returning-uniform", sluiceName, 230 + excess},
			{"returning-uniform", liveKeys, 200},
			{"returning-uniform", "throttled", 460},
			{"mix", sluiceName, 115 + excess},
			{"mix", liveKeys, 100},
			{"first-growing", sluiceName, 480 + excess},
			{"first-growing", "throttled", 800},
			{"first-growing", "go-chi/httprate", 300}, // estimates
			{"first-steady", sluiceName, 300 + excess},
			{"first-steady", "throttled", 500},
			{"allocs", sluiceName, excess},
			{"hot-serial", floorDecision, 40},
			{"hot-serial", sluiceName, 60 + excess},
			{"hot-serial", "throttled", 60},
			{"hot-serial", "failsafe-go, map+mutex", 10}, // keeps no keys itself
			{"hot-parallel", floorDecision, 100},
			{"hot-parallel", sluiceName, 130 + excess},
			{"denied-serial", sluiceName, 60 + excess},
			{"denied-parallel", sluiceName, 150 + excess},
			{"heap", sluiceName, 52 + excess},
			{"gc", sluiceName, 1.5 + excess},
			{"gc", floorTable, 1},
			{"flood-bound", sluiceName, 64},
			{"flood-peak", sluiceName, 64 + excess},
			{"flood-admitted", sluiceName, excess},
			{"override-hot", noTable, 400},
			{"override-hot", emptyTable, 405 + excess},
			{"override-hot", theseKeys, 420 + excess},
			{"override-cold", noTable, 600},
			{"override-cold", otherKeys, 620 + excess},
			{"override-cold", theseKeys, 620 + excess},
			{"override-bytes", theseKeys, 100 + excess},
			{"override-change", theseKeys, 10_000 + excess},
			{"http", sluiceName, 800 + excess},
			{"http", "throttled", 801},
			{"http-over", sluiceName, 700 + excess},
			{"http-over", "throttled", 701},
			{"http-allocs", sluiceName, 3 + excess},
		} {
			r.Set(f.metric, f.subject, figures.Once(f.value))
		}
		return r
	}
	for _, b := range judge(measured(0)) {
		if !b.Measured || !b.Holds || b.Found == "" {
			t.Errorf("%s: a figure at its bar should hold: %s: %s", b.Promise, b.Found, b.Verdict())
		}
	}
	beyond := judge(measured(1))
	if got := figures.Failed(beyond); got != len(beyond) {
		t.Errorf("%d of %d bars fail", got, len(beyond))
	}
	for _, b := range judge(figures.Results{}) {
		if b.Measured {
			t.Errorf("%s: %s of nothing", b.Promise, b.Verdict())
		}
	}
}
