package hybrid

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/granttest"
)

// byHand returns a scenario in which nothing goes wrong.
func byHand(t *testing.T, a sluice.Algorithm, h sluice.Hybrid) *scenario {
	t.Helper()
	l, err := sluice.MustLimit("simulated", a).WithHybrid(h)
	if err != nil {
		t.Fatal(err)
	}
	return &scenario{
		seed: 1, limit: l, other: l, nodes: 1, keys: 1, cost: 1, length: 700 * time.Millisecond,
		weather: weather{trip: 3 * time.Millisecond}, load: load{total: 1000, period: time.Second},
		start: time.Date(2030, 5, 4, 23, 59, 58, 0, time.UTC),
	}
}

// TestSimulatedBurst: a process admits a burst that the limit has units for. It once paced its claims while
// most of the bucket was free.
func TestSimulatedBurst(t *testing.T) {
	s := byHand(t, sluice.TokenBucket{Rate: sluice.PerSecond(510), Burst: 723}, sluice.Hybrid{Sync: 20 * time.Millisecond, Life: 160 * time.Millisecond})
	s.cost, s.load.shape = 4, boundaries
	if _, problem := play(t, s, granttest.Correct, noTrick); problem != "" {
		t.Errorf("the burst breaks a promise: %s", problem)
	}
}

// TestSimulatedWindow: a process admits requests as soon as a window begins. It once paced its claims beyond the
// end of the window in which units were short.
func TestSimulatedWindow(t *testing.T) {
	s := byHand(t, sluice.FixedWindow{Rate: sluice.Per(155, 200*time.Millisecond)}, sluice.Hybrid{Sync: 50 * time.Millisecond, Life: 400 * time.Millisecond, Stranded: 0.2})
	s.weather.trip = 100 * time.Microsecond
	for range 20 {
		if _, problem := play(t, s, granttest.Correct, noTrick); problem != "" {
			t.Fatalf("the window breaks a promise: %s", problem)
		}
		s.seed++
	}
}

// TestSimulatedCorrectionsAfterSetBack: the server's clock goes back to the window before, and the window that
// counts goes on. A charge is corrected in the window that counts it. The model once looked for the charge in the
// window of the earlier time, did not give it back, and found one unit too much.
func TestSimulatedCorrectionsAfterSetBack(t *testing.T) {
	s := byHand(t, sluice.FixedWindow{Rate: sluice.PerSecond(100)}, sluice.Hybrid{Sync: 20 * time.Millisecond, Life: 400 * time.Millisecond, Stranded: 1})
	s.corrections, s.length, s.load.total = true, 900*time.Millisecond, 300
	s.faults = []fault{{at: 100 * time.Millisecond, what: jump, long: -500 * time.Millisecond}}
	if _, problem := play(t, s, granttest.Correct, noTrick); problem != "" {
		t.Errorf("the corrections break a promise: %s", problem)
	}
}

// TestBoundTakesRefundsBack: three requests of one moment are refunded, and then the limit has all its units.
func TestBoundTakesRefundsBack(t *testing.T) {
	b := &slidingBound{count: 10, most: 10, length: 100, longest: 100}
	for _, units := range []int64{6, 3, 1} {
		b.admit(units, 5)
	}
	for _, units := range []int64{3, 6, 1} {
		b.refund(units, 5, 5)
	}
	if over := b.admit(11, 5); over != 1 {
		t.Errorf("11 units are %d beyond the limit of 10", over)
	}
}

// TestSimulatedSeeds runs seeds that have failed. Seed 6772 found a defect of the server: after its clock was set back, a claim
// moved the end of a grant to an earlier time than the process had been promised. Seeds 4004288 and 4012148 found that it
// forgot a claim before the end that it had named, so that a claim which came again was granted more. Seed 4008304
// found that a process denied a request by a pace of two seconds before, while its claim returned units. The others were
// mistakes of the model: a sliding window of one cell gives half of its count in a period. Units that expire because calls are slow count as used.
// A server that has lost its data counts from its clock again. Credit may be spent while a claim is on its way.
// A bucket with another rate refills at the higher one from the latest charge. Requests of one moment are refunded together.
// After the clock was set back, units that were spent before count at the time of their report. A reset then
// makes the server count in the window of its clock.
func TestSimulatedSeeds(t *testing.T) {
	for _, seed := range []uint64{
		6772, 7912, 7977, 12784, 13269, 1002292, 1004520, 1008808, 1009840, 1010062, 1014044, 1015564, 3003372, 4004288, 4008169, 4008304, 4012148, 4012494, 5044862, 6011860, 6045964,
		3007211,
	} {
		if _, problem := play(t, newScenario(seed), granttest.Correct, noTrick); problem != "" {
			t.Errorf("seed %d: %s", seed, problem)
		}
	}
}

// TestSimulatedLoweredNumbers: all processes use up a limit and then get lower numbers. They use the new limit as soon
// as exact requests could. The server once booked reports under the numbers of the claim.
func TestSimulatedLoweredNumbers(t *testing.T) {
	s := byHand(t, sluice.TokenBucket{Rate: sluice.PerSecond(80)}, sluice.Hybrid{Sync: 20 * time.Millisecond, Life: 160 * time.Millisecond, Stranded: 0.2})
	s.other = byHand(t, sluice.TokenBucket{Rate: sluice.PerSecond(800)}, *s.limit.Hybrid()).limit
	s.seed, s.nodes, s.others, s.length, s.load.total = 4, 3, 3, 2*time.Second, 1600 // seeds that 4 divides have a recovery
	if _, problem := play(t, s, granttest.Correct, noTrick); problem != "" {
		t.Errorf("the lowered numbers break a promise: %s", problem)
	}
	if _, problem := play(t, s, granttest.BooksAnew, noTrick); problem == "" {
		t.Errorf("nobody notices that a server %v", granttest.BooksAnew)
	}
}
