package figures

import (
	"cmp"
	"fmt"
	"slices"
)

// A Stat is a figure that was measured several times.
type Stat struct {
	Median, Low, High float64

	values []float64 // by round, for Over
}

// Summarize returns the median of the values of all rounds, and their spread. Without values it is
// zero.
func Summarize(values []float64) Stat {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	if n == 0 {
		return Stat{}
	}
	return Stat{Median: (s[(n-1)/2] + s[n/2]) / 2, Low: s[0], High: s[n-1], values: values}
}

// Over returns the ratios of s to o in each round, because a disturbance of a round affects both. Figures
// of different rounds give the ratio of their medians.
func (s Stat) Over(o Stat) Stat { return s.with(o, func(a, b float64) float64 { return a / b }) }

// Beyond returns the differences of s and o in each round, as Over returns the ratios.
func (s Stat) Beyond(o Stat) Stat { return s.with(o, func(a, b float64) float64 { return a - b }) }

func (s Stat) with(o Stat, compute func(a, b float64) float64) Stat {
	if len(s.values) != len(o.values) || len(s.values) == 0 {
		return Once(compute(s.Median, o.Median))
	}
	all := make([]float64, len(s.values))
	for i, v := range s.values {
		all[i] = compute(v, o.values[i])
	}
	return Summarize(all)
}

// AtLeast returns in how many rounds the figure was at least so much, and how many rounds there were.
func (s Stat) AtLeast(least float64) (n, rounds int) {
	for _, v := range s.values {
		if v >= least {
			n++
		}
	}
	return n, len(s.values)
}

// Once returns a figure that was measured once.
func Once(v float64) Stat { return Summarize([]float64{v}) }

// Text returns the median with the given decimals, and the spread if there is one.
func (s Stat) Text(decimals int) string {
	if s.Low == s.High {
		return fmt.Sprintf("%.*f", decimals, s.Median)
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", decimals, s.Median, decimals, s.Low, decimals, s.High)
}

// Results are all figures: metric → subject → figure.
type Results map[string]map[string]Stat

// Set records a figure.
func (r Results) Set(metric, subject string, s Stat) {
	if r[metric] == nil {
		r[metric] = map[string]Stat{}
	}
	r[metric][subject] = s
}

// Median returns a figure and whether it was measured.
func (r Results) Median(metric, subject string) (float64, bool) {
	s, ok := r[metric][subject]
	return s.Median, ok
}

// Ratio returns the ratio of the figures of two subjects, as Stat.Over does, and whether both were
// measured.
func (r Results) Ratio(metric, subject, over string) (Stat, bool) {
	a, ok1 := r[metric][subject]
	b, ok2 := r[metric][over]
	if !ok1 || !ok2 || b.Low == 0 {
		return Stat{}, false
	}
	return a.Over(b), true
}

// Least returns the subject with the smallest figure among some subjects, and whether there is one.
func (r Results) Least(metric string, among func(subject string) bool) (subject string, figure float64, ok bool) {
	var names []string
	for name := range r[metric] {
		if among(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", 0, false
	}
	subject = slices.MinFunc(names, func(a, b string) int {
		return cmp.Compare(r[metric][a].Median, r[metric][b].Median)
	})
	return subject, r[metric][subject].Median, true
}
