package fleet

import (
	"math"
	"math/rand/v2"
	"testing"
)

// slowly finds the worst interval by trying all of them.
func slowly(spends []Spend, length int64, slope, base float64) float64 {
	worst := math.Inf(-1)
	for _, a := range spends {
		for _, b := range spends {
			if b.To < a.From || b.To-a.From >= length {
				continue
			}
			units := int64(0)
			for _, s := range spends {
				if s.From >= a.From && s.To <= b.To {
					units += s.Units
				}
			}
			if units > 0 {
				worst = max(worst, float64(units)-base-slope*float64(b.To-a.From))
			}
		}
	}
	return worst
}

// TestWorstInterval compares the search for the worst interval with a search of all intervals.
func TestWorstInterval(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 400 {
		spends := make([]Spend, 1+r.IntN(40))
		for i := range spends {
			from := r.Int64N(200)
			spends[i] = Spend{From: from, To: from + r.Int64N(1+r.Int64N(20)), Units: 1 + r.Int64N(5)}
		}
		for _, length := range []int64{math.MaxInt64, 1 + r.Int64N(100)} {
			for _, slope := range []float64{0, r.Float64() / 4} {
				base := float64(r.IntN(30))
				got, want := widest(spends, length, slope, base), slowly(spends, length, slope, base)
				if math.IsInf(want, -1) {
					continue // each spend takes longer than the interval
				}
				if math.Abs(got.Over()-want) > 1e-6 {
					t.Fatalf("round %d: over by %v (%+v), want %v", round, got.Over(), got, want)
				}
			}
		}
	}
}

// TestLawsFindOneUnitTooMany spends what each law admits, and then one unit more.
func TestLawsFindOneUnitTooMany(t *testing.T) {
	t.Parallel()
	const second = int64(1e9)
	at := func(ns, units int64) Spend { return Spend{From: ns, To: ns + 1000, Units: units} }
	for _, c := range []struct {
		name string
		law  func([]Spend) Excess
		most []Spend
		more Spend
	}{
		{
			"bucket", func(s []Spend) Excess { return Bucket(s, 10, 2) },
			[]Spend{at(0, 10), at(second, 2), at(3*second, 4)},
			at(3*second+5000, 1),
		},
		{
			"window", func(s []Spend) Excess { return Window(s, 10, second) },
			[]Spend{at(0, 4), at(second/2, 6), at(second+5000, 4)},
			at(second+second/2-5000, 1),
		},
		{
			"aligned", func(s []Spend) Excess { return Aligned(s, 10, 7, second) },
			[]Spend{at(second-5000, 10), at(second+7, 10), at(-second, 10)},
			at(2*second-5000, 1),
		},
	} {
		if e := c.law(c.most); e.Over() > 0 {
			t.Errorf("%s: %+v exceeds the law by %v", c.name, e, e.Over())
		}
		if e := c.law(append(c.most, c.more)); e.Over() < 0.9 || e.Over() > 1 {
			t.Errorf("%s: one unit too many exceeds the law by %v: %+v", c.name, e.Over(), e)
		}
	}
	// A decision that took long may have been made at any time until its end.
	slow := Spend{From: 0, To: second, Units: 1}
	if e := Bucket([]Spend{at(0, 10), slow}, 10, 1); e.Over() > 0 {
		t.Errorf("a slow spend exceeds the law: %+v", e)
	}
}

// A ledger that was written is read as it was.
func TestLedgersAreReadAsWritten(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/ledger"
	l, err := NewLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Spend{{1, 2, 3, 0}, {1 << 60, 1<<60 + 1, 1, 6}}
	for _, s := range want {
		l.Write(s)
	}
	got, err := ReadLedger(path)
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] || l.Lost() != 0 {
		t.Errorf("got %v %v, want %v", got, err, want)
	}
}
