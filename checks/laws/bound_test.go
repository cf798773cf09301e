package laws

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/oracle"
)

// A bound returns the most units that may act in an interval of some microseconds, both ends included.
// It returns false if the algorithm promises nothing about so long an interval.
type bound func(length int64) (units int64, ok bool)

func bucketBound(r sluice.Rate, burst int64) bound {
	return func(length int64) (int64, bool) { return burst + gives(r, length), true }
}

func leakyBound(b sluice.LeakyBucket) bound {
	return func(length int64) (int64, bool) { return gives(b.Rate, length) + 1 + b.Undelayed, true }
}

// gives returns the whole units that a rate gives in some microseconds.
func gives(r sluice.Rate, length int64) int64 {
	units := oracle.Rat(r.Count(), r.Period().Microseconds())
	return oracle.Down(units.Mul(units, oracle.Rat(length, 1)))
}

// windowBound bounds intervals that are shorter than the period.
func windowBound(r sluice.Rate, units int64) bound {
	return func(length int64) (int64, bool) {
		return units, length < r.Period().Microseconds()
	}
}

// An act is the units of an admitted request, and when they act, to within a microsecond: delays are
// rounded up.
type act struct{ from, to, units int64 }

// bounds checks that no interval of a random schedule exceeds its bound. If the clock goes back, a charge
// counts at the latest time at which the key was charged. The clock goes back only while the store must
// keep the state, because the state holds that time.
func bounds(t *rapid.T, k kind) {
	s := k.draw(t)
	p := newPlayer(t, s)
	p.back = rapid.Bool().Draw(t, "clock goes back")
	_, queue := s.limit.Algorithm().(sluice.LeakyBucket)
	var acts []act
	latest, fresh := int64(0), int64(0)
	for range rapid.IntRange(1, 60).Draw(t, "requests") {
		p.pass()
		if p.high >= fresh {
			p.now = p.high
		}
		r, _ := p.request(p.accounts[0])
		r.Overdraw = false // its bound is a law of package algo
		switch {
		case queue:
			r.Cost = min(r.Cost, 1) // several units leave one after another
		case p.back:
			r.MaxWait = 0
		}
		d := p.decide(r)
		fresh = max(fresh, p.now+d.ResetAfter.Microseconds())
		if r.Debit && !d.Allowed {
			latest = max(latest, p.now) // it is charged all the same
		}
		if !d.Allowed || r.Cost == 0 {
			continue
		}
		at := p.now + d.Delay.Microseconds()
		if p.back {
			latest = max(latest, at)
			at = latest
		}
		a := act{at, at, r.Cost}
		if d.Delay > 0 {
			a.from--
		}
		acts = append(acts, a)
	}
	slices.SortStableFunc(acts, func(a, b act) int { return cmp.Compare(a.from, b.from) })
	for i, first := range acts {
		sum := int64(0)
		for _, last := range acts[i:] {
			sum += last.units
			if most, ok := s.bound(last.to - first.from); ok && sum > most {
				t.Fatalf("%v: %d units act from %d to %d, of %d: %+v", s.limit, sum, first.from, last.to, most, acts)
			}
		}
	}
}

func TestBoundsHoldForAnySchedule(t *testing.T) {
	for _, k := range bounded() {
		t.Run(k.name, rapid.MakeCheck(func(t *rapid.T) { bounds(t, k) }))
	}
}

// bounded returns the kinds that bound what acts in an interval. Concurrency bounds what is held at once.
func bounded() []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.name == "concurrency" })
}

// The bound holds for any input of the fuzzer.
func FuzzBounds(f *testing.F) {
	seed(f)
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { bounds(t, rapid.SampledFrom(bounded()).Draw(t, "algorithm")) }))
}
