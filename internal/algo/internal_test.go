package algo

import (
	"math/rand/v2"
	"testing"
)

// KindEnd is the number after the last Kind.
const KindEnd = kindEnd

// Wait returns the microseconds it takes to refill ticks.
func (p Pace) Wait(ticks uint64) int64 { return p.wait(ticks) }

// TestTakeDecidesAsDecide gives both the same requests. Where Take decides, Decide decides the
// same; otherwise the request is not a simple one.
func TestTakeDecidesAsDecide(t *testing.T) {
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
			req := Request{Now: max(now, 0), Cost: r.Int64N(b.Burst + 2)}
			want, res := b.Decide(s, req)
			got, short, plain := b.Take(s, req.Now, req.Cost)
			took := Result{Allowed: true, Remaining: b.Held(got), ResetAfter: b.Full(got), At: got.T}
			kept := got
			if short > 0 {
				took.Allowed, took.At = false, 0
				took.Reason, took.RetryAfter = Limited, b.Wait(short)
				kept = s
			}
			switch {
			case !plain && req.Now >= s.T && req.Cost > 0 && req.Cost <= b.Burst:
				t.Fatalf("%+v, %+v: Take leaves a simple request to Decide", b, req)
			case plain && (kept != want || res != took):
				t.Fatalf("%+v, %+v: Take gives %+v with %+v, Decide %+v with %+v", b, req, kept, took, want, res)
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

// TestWindowSettleOfFresh: a clock that was set back has left a window ahead whose state equals a
// fresh one. A charge of that window settles the same whether the state was forgotten or not.
func TestWindowSettleOfFresh(t *testing.T) {
	w := FixedWindow{Count: 5, Length: 1_000_000}
	const now = 50_500_000
	kept := State{T: 51_000_000, V: 0}
	if !w.Fresh(kept, now) {
		t.Fatal("a window of which nothing is used is not fresh")
	}
	for _, c := range []Charge{{Cost: 1, At: 51_000_000}, {Cost: 0, At: 51_200_000}, {Cost: 2, At: now}, {Cost: 2, At: 49_000_000}} {
		for _, actual := range []int64{0, 1, 2, 4, 9} {
			got, want := w.Settle(kept, now, c, actual), w.Settle(State{}, now, c, actual)
			if w.Fresh(got, now) && w.Fresh(want, now) {
				continue
			}
			if got != want {
				t.Errorf("%+v settled at %d: %+v with the state, %+v without", c, actual, got, want)
			}
		}
	}
}
