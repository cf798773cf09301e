package figures

import (
	"fmt"
	"slices"
)

// Stat is a figure measured several times.
type Stat struct {
	Median, Low, High float64

	values []float64 // by round, for Over
}

// Summarize returns the median of the values, one a round, and their spread;
// that of none is zero.
func Summarize(values []float64) Stat {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	if n == 0 {
		return Stat{}
	}
	return Stat{Median: (s[(n-1)/2] + s[n/2]) / 2, Low: s[0], High: s[n-1], values: values}
}

// Over returns the ratios of s to o, round by round, of two figures that were
// measured in the same rounds: what disturbs a round, disturbs both. Figures of
// different rounds give the ratio of their medians.
func (s Stat) Over(o Stat) Stat {
	if len(s.values) != len(o.values) || len(s.values) == 0 {
		return Once(s.Median / o.Median)
	}
	ratios := make([]float64, len(s.values))
	for i, v := range s.values {
		ratios[i] = v / o.values[i]
	}
	return Summarize(ratios)
}

// Once is a figure measured one time.
func Once(v float64) Stat { return Summarize([]float64{v}) }

// Text is the median with the given decimals and, if it was measured more than
// once, the spread.
func (s Stat) Text(decimals int) string {
	if s.Low == s.High {
		return fmt.Sprintf("%.*f", decimals, s.Median)
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", decimals, s.Median, decimals, s.Low, decimals, s.High)
}
