package hybrid

import (
	"cmp"
	"os"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/sluicehq/sluice/internal/granttest"
)

// play runs a scenario under virtual time. It returns what is wrong, with a trace.
func play(t *testing.T, s *scenario, f granttest.Fault, tr trick) (w *world, problem string) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(s, f, tr)
		w.play()
	})
	if w.failed() {
		return w, s.String() + "\n" + w.trace()
	}
	return w, ""
}

// smallest shrinks a scenario that fails, and returns the problem of the smallest one.
func smallest(t *testing.T, s *scenario, problem string) string {
	t.Helper()
again:
	for _, smaller := range s.shrink() {
		if _, p := play(t, smaller, granttest.Correct, noTrick); p != "" {
			s, problem = smaller, p
			goto again
		}
	}
	return problem
}

// seeds returns the first seed and how many to run.
func seeds(t *testing.T, n uint64) (first, count uint64) {
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return seed, 1
	}
	times, err := strconv.ParseUint(cmp.Or(os.Getenv("SLUICE_SOAK"), "1"), 10, 64)
	if err != nil {
		t.Fatalf("SLUICE_SOAK: %v", err)
	}
	return 1, n * times
}

func TestSimulation(t *testing.T) {
	first, count := seeds(t, 1000)
	var total world
	for seed := first; seed < first+count; seed++ {
		s := newScenario(seed)
		w, problem := play(t, s, granttest.Correct, noTrick)
		if problem != "" {
			t.Fatal(smallest(t, s, problem))
		}
		total.admitted += w.admitted
		total.locals += w.locals
		total.denied += w.denied
		total.batches += w.batches
		total.refunded += w.refunded
	}
	t.Logf("%d units admitted, %d of them locally, %d refunded, %d requests denied, %d batches decided locally",
		total.admitted, total.locals, total.refunded, total.denied, total.batches)
}
