package algo

import (
	"math/rand/v2"
	"testing"
)

// TestTakeAnswersAsDecide asks both the same questions: where Take answers, Decide
// answers the same; where it does not, the question is not a plain one.
func TestTakeAnswersAsDecide(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 20_000 {
		period := 1 + r.Int64N(1e7)
		p := NewPace(1+r.Int64N(1000), period)
		b := NewBucket(p, period, 1+r.Int64N(50), 50)
		var s State
		now := r.Int64N(1e15)
		for range 10 {
			now += r.Int64N(2*period) - period/8
			a := Ask{Now: max(now, 0), Cost: r.Int64N(b.Burst + 2)}
			want, ans := b.Decide(s, a)
			got, ok := b.Take(s, a.Now, a.Cost)
			switch {
			case !ok && ans.Allowed && a.Now >= s.T && a.Cost > 0:
				t.Fatalf("%+v, %+v: Take leaves to Decide what it allows: %+v", b, a, ans)
			case ok && (got != want || ans != Answer{Allowed: true, Remaining: b.Held(got), ResetAfter: b.Full(got), At: got.T}):
				t.Fatalf("%+v, %+v: Take gives %+v with %d held and full in %d, Decide %+v with %+v",
					b, a, got, b.Held(got), b.Full(got), want, ans)
			case ok:
				taken++
			}
			s = want
		}
	}
	b := NewBucket(Pace{1 << 50, 1}, 1, 4, 4)
	if s, ok := b.Take(State{V: lent | 3}, 1<<13-1, 4); ok {
		t.Errorf("Take answered from a bucket that has lent: %+v", s)
	}
	if taken < 10_000 {
		t.Errorf("Take answered %d times only", taken)
	}
}
