package figures

import (
	"cmp"
	"slices"
)

// Results holds what was measured: metric → subject → figure.
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

// Ratio returns the figure of one subject over that of another, as Stat.Over
// does, and whether both were measured.
func (r Results) Ratio(metric, subject, over string) (Stat, bool) {
	a, ok1 := r[metric][subject]
	b, ok2 := r[metric][over]
	if !ok1 || !ok2 || b.Low == 0 {
		return Stat{}, false
	}
	return a.Over(b), true
}

// Least returns the subject with the smallest figure among those asked for, and
// whether there is one.
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
