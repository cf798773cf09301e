package fleet

import "math"

// A tree holds a value for each position. It adds to all values up to a position, and finds the largest
// value of a range, both in logarithmic time.
type tree struct {
	n    int       // positions, rounded up to a power of two
	best []float64 // of the node's range, without what was added to nodes above it
	more []float64 // added to the whole range of the node
}

func newTree(n int, value func(int) float64) *tree {
	t := &tree{n: 1}
	for t.n < n {
		t.n *= 2
	}
	t.best, t.more = make([]float64, 2*t.n), make([]float64, 2*t.n)
	for i := range t.n {
		t.best[t.n+i] = math.Inf(-1)
		if i < n {
			t.best[t.n+i] = value(i)
		}
	}
	for i := t.n - 1; i > 0; i-- {
		t.best[i] = max(t.best[2*i], t.best[2*i+1])
	}
	return t
}

// add adds to the values at positions 0 to last.
func (t *tree) add(last int, v float64) { t.addTo(1, 0, t.n-1, last, v) }

func (t *tree) addTo(node, from, to, last int, v float64) {
	if last < from {
		return
	}
	if to <= last {
		t.best[node] += v
		t.more[node] += v
		return
	}
	middle := (from + to) / 2
	t.addTo(2*node, from, middle, last, v)
	t.addTo(2*node+1, middle+1, to, last, v)
	t.best[node] = max(t.best[2*node], t.best[2*node+1]) + t.more[node]
}

// most returns a position from first to last whose value is the largest, and the value.
func (t *tree) most(first, last int) (int, float64) {
	return t.mostOf(1, 0, t.n-1, first, last)
}

func (t *tree) mostOf(node, from, to, first, last int) (int, float64) {
	switch {
	case last < from || to < first:
		return -1, math.Inf(-1)
	case from == to:
		return from, t.best[node]
	}
	left, right := 2*node, 2*node+1
	middle := (from + to) / 2
	if first <= from && to <= last { // the whole node: follow its best child
		best := t.best[node]
		if t.best[left] >= t.best[right] {
			i, _ := t.mostOf(left, from, middle, first, last)
			return i, best
		}
		i, _ := t.mostOf(right, middle+1, to, first, last)
		return i, best
	}
	i, a := t.mostOf(left, from, middle, first, last)
	j, b := t.mostOf(right, middle+1, to, first, last)
	if a >= b {
		return i, a + t.more[node]
	}
	return j, b + t.more[node]
}

// sums holds a number for each position, and adds up the numbers from a position on.
type sums []int64

func newSums(n int) sums { return make(sums, n+1) }

func (s sums) add(at int, v int64) {
	for i := at + 1; i > 0; i &= i - 1 {
		s[i] += v
	}
}

func (s sums) from(at int) (sum int64) {
	for i := at + 1; i < len(s); i += i & -i {
		sum += s[i]
	}
	return sum
}
