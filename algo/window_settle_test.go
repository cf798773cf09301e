package algo

import "testing"

// TestWindowSettleOfFresh: whether a state that equals a fresh one was forgotten makes no
// difference to a charge of a later window, which a clock that was set back has left ahead.
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
