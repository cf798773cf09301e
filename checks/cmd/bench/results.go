package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// stat is a figure measured several times.
type stat struct {
	median, low, high float64
}

// summarize returns the median of the values and their spread.
func summarize(values []float64) stat {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	if n == 0 {
		return stat{}
	}
	return stat{median: (s[(n-1)/2] + s[n/2]) / 2, low: s[0], high: s[n-1]}
}

// once is a figure measured one time.
func once(v float64) stat { return stat{v, v, v} }

// text is the median with the given decimals and, if it was measured more
// than once, the spread.
func (s stat) text(decimals int) string {
	if s.low == s.high {
		return fmt.Sprintf("%.*f", decimals, s.median)
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", decimals, s.median, decimals, s.low, decimals, s.high)
}

// results holds what was measured: metric → subject → figure.
type results map[string]map[string]stat

func (r results) set(metric, subject string, s stat) {
	if r[metric] == nil {
		r[metric] = map[string]stat{}
	}
	r[metric][subject] = s
}

// median returns a figure and whether it was measured.
func (r results) median(metric, subject string) (float64, bool) {
	s, ok := r[metric][subject]
	return s.median, ok
}

// least returns the subject with the smallest figure among those asked for.
func (r results) least(metric string, among func(subject string) bool) (string, float64, bool) {
	var names []string
	for name := range maps.Keys(r[metric]) {
		if among(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", 0, false
	}
	name := slices.MinFunc(names, func(a, b string) int {
		return cmp.Compare(r[metric][a].median, r[metric][b].median)
	})
	return name, r[metric][name].median, true
}
