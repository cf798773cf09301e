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
			a := Request{Now: max(now, 0), Cost: r.Int64N(b.Burst + 2)}
			want, ans := b.Decide(s, a)
			got, short, plain := b.Take(s, a.Now, a.Cost)
			took := Result{Allowed: true, Remaining: b.Held(got), ResetAfter: b.Full(got), At: got.T}
			kept := got
			if short > 0 {
				took.Allowed, took.At = false, 0
				took.Reason, took.RetryAfter = Limited, b.Wait(short)
				kept = s
			}
			switch {
			case !plain && a.Now >= s.T && a.Cost > 0 && a.Cost <= b.Burst:
				t.Fatalf("%+v, %+v: Take leaves a plain question to Decide", b, a)
			case plain && (kept != want || ans != took):
				t.Fatalf("%+v, %+v: Take gives %+v with %+v, Decide %+v with %+v", b, a, kept, took, want, ans)
			case plain:
				taken++
			}
			s = want
		}
	}
	b := NewBucket(Pace{1 << 50, 1}, 1, 4, 4)
	if s, _, plain := b.Take(State{V: lent | 3}, 1<<13-1, 4); plain {
		t.Errorf("Take answered from a bucket that has lent: %+v", s)
	}
	if taken < 10_000 {
		t.Errorf("Take answered %d times only", taken)
	}
}
