package figures

import "fmt"

// A Column of a table has a title, and a cell for each subject.
type Column struct {
	Title string
	Cell  func(subject string) string
}

// Columns returns a table with a row for each subject that has a cell. Columns without any cell are left out.
func Columns(unit string, subjects []string, columns ...Column) Table {
	t := Table{{unit}}
	for _, s := range subjects {
		t = append(t, []string{s})
	}
	for _, c := range columns {
		cells, filled := []string{c.Title}, false
		for _, s := range subjects {
			cell := c.Cell(s)
			cells, filled = append(cells, cell), filled || cell != ""
		}
		for i := range t {
			if filled {
				t[i] = append(t[i], cells[i])
			}
		}
	}
	some := t[:1]
	for _, row := range t[1:] {
		some.Append(row)
	}
	return some
}

// Cell returns the cells of a metric: medians with their spread.
func (r Results) Cell(metric string, decimals int) func(subject string) string {
	return func(subject string) string {
		if s, ok := r[metric][subject]; ok {
			return s.Text(decimals)
		}
		return ""
	}
}

// MedianCell returns the cells of a metric: medians times a factor, without their spread.
func (r Results) MedianCell(metric string, times float64, decimals int) func(subject string) string {
	return func(subject string) string {
		if v, ok := r.Median(metric, subject); ok {
			return fmt.Sprintf("%.*f", decimals, v*times)
		}
		return ""
	}
}

// RatioCell returns the cells of ratios to one subject.
func (r Results) RatioCell(metric, over string, decimals int) func(subject string) string {
	return func(subject string) string {
		if s, ok := r.Ratio(metric, subject, over); ok {
			return s.Text(decimals)
		}
		return ""
	}
}

// AtMost holds if the figure of a subject is at most factor × the figure of another subject. Figures are shown in
// a format, and the ratio with some decimals.
func (r Results) AtMost(promise, metric, subject string, factor float64, over, format string, decimals int) Bar {
	bar, ratio := r.compare(promise, metric, subject, over, format, decimals)
	bar.Holds = bar.Measured && ratio <= factor
	return bar
}

// AtLeast is AtMost for figures of which more is better.
func (r Results) AtLeast(promise, metric, subject string, factor float64, over, format string, decimals int) Bar {
	bar, ratio := r.compare(promise, metric, subject, over, format, decimals)
	bar.Holds = bar.Measured && ratio >= factor
	return bar
}

func (r Results) compare(promise, metric, subject, over, format string, decimals int) (Bar, float64) {
	ratio, ok := r.Ratio(metric, subject, over)
	if !ok {
		return Bar{Promise: promise}, 0
	}
	found := fmt.Sprintf(format+" : "+format+" = %s", r[metric][subject].Median, r[metric][over].Median, ratio.Text(decimals))
	return Bar{Promise: promise, Found: found, Measured: true}, ratio.Median
}
