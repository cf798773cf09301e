package hybrid

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/sluicehq/sluice/internal/granttest"
	"github.com/sluicehq/sluice/internal/soak"
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
func smallest(t *testing.T, s *scenario) string {
	t.Helper()
	_, problem := play(t, s, granttest.Correct, noTrick)
again:
	for _, smaller := range s.shrink() {
		if _, p := play(t, smaller, granttest.Correct, noTrick); p != "" {
			s, problem = smaller, p
			goto again
		}
	}
	return problem
}

// seeds returns the first seed and how many to run. SLUICE_SEED runs one seed, or begins there if SLUICE_SOAK says how
// many times as many as usual to run.
func seeds(t *testing.T, n int) (first, count uint64) {
	number := func(name string, otherwise uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return otherwise
		}
		i, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s is not a number: %v", name, err)
		}
		return i
	}
	first = number("SLUICE_SEED", 0)
	if first > 0 && os.Getenv("SLUICE_SOAK") == "" {
		return first, 1
	}
	return max(first, 1), uint64(soak.Times(t, n))
}

// mostProblems is how many seeds fail before the simulation ends.
const mostProblems = 20

// No seed breaks the bound of a limit, or another promise of hybrid limits.
func TestSimulationsKeepAllPromises(t *testing.T) {
	first, count := seeds(t, 100) // more than a thousand with `make nightly`
	var total world
	var bad []*scenario
	for seed := first; seed < first+count && len(bad) < mostProblems; seed++ {
		s := newScenario(seed)
		w, problem := play(t, s, granttest.Correct, noTrick)
		if problem != "" {
			t.Errorf("seed %d: %s", seed, w.problem)
			bad = append(bad, s)
		}
		total.admitted += w.admitted
		total.locals += w.locals
		total.denied += w.denied
		total.batches += w.batches
		total.refunded += w.refunded
	}
	if len(bad) > 0 {
		t.Fatalf("the smallest scenario that breaks a promise: %s", smallest(t, bad[0]))
	}
	t.Logf("%d units admitted, %d of them locally, %d refunded, %d requests denied, %d batches decided locally",
		total.admitted, total.locals, total.refunded, total.denied, total.batches)
}
