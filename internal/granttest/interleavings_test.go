package granttest

import (
	"os"
	"testing"

	"github.com/sluicehq/sluice/internal/oracle"
)

// small returns a search of all interleavings for a bucket of some units, of which one comes back in two ticks.
func small(units int64, processes int, ticks, claims int8) search {
	b := oracle.NewBucket(1, 2, units, units)
	return search{
		name: "token bucket", fresh: b, bound: b, terms: oracle.Terms{Cap: 6, Life: 2},
		processes: processes, ticks: ticks, claims: claims, want: 3,
	}
}

// TestInterleavingsStayExact visits all states that a few processes reach with few units: up to three processes and six
// units. The spends of all of them, in any order, pass the exact algorithm. Usual runs visit the smaller half of
// the searches; with SLUICE_SOAK set, all.
func TestInterleavingsStayExact(t *testing.T) {
	three := small(3, 3, 2, 1)
	three.exact = 1
	window := small(0, 2, 3, 2)
	window.name, window.fresh, window.want = "fixed window", oracle.NewWindow(3, 2, false, false), 2
	window.bound = window.fresh
	searches := []search{three, window}
	if os.Getenv("SLUICE_SOAK") != "" {
		two, alone, again, log := small(2, 2, 3, 2), small(4, 1, 4, 2), small(3, 2, 2, 2), small(0, 2, 3, 2)
		alone.exact, alone.takes, alone.resets, alone.restarts = 1, 1, 1, 1
		again.restarts, again.resets = 1, 1
		log.name, log.fresh, log.want = "sliding log", oracle.NewLog(3, 2, 0, false), 2
		log.bound = log.fresh
		searches = append(searches, two, small(6, 3, 3, 1), alone, again, log)
	}
	for _, s := range searches {
		s.correct(t)
	}
}

// TestInterleavingsFindDefects: each defect that the protocol must not have leads to a state that is wrong.
func TestInterleavingsFindDefects(t *testing.T) {
	find := func(s search) {
		t.Helper()
		s.most = 400_000
		if states, problem := s.run(); problem == "" || states > s.most {
			t.Errorf("%v, habit %d: nothing is wrong in %d states", s.fault, s.habit, states)
		} else {
			t.Logf("%d states\n%s", states, problem)
		}
	}
	for f := Correct + 1; f < Faults; f++ {
		s := small(2, 2, 3, 2)
		s.fault, s.exact = f, 1
		if f == RepeatsClaims || f == HandlesStale {
			continue // they waste units, and take none beyond the limit
		}
		find(s)
	}
	for h := good + 1; h <= returnsEarly; h++ {
		s := small(2, 2, 3, 2)
		if h == numbersRetries {
			s = small(6, 1, 3, 3) // a grant, and a report that is repeated
		}
		s.habit, s.late = h, h == deadlineOfReply || h == returnsEarly
		find(s)
	}
}
