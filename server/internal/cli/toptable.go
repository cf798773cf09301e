package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The styles of lines.
const (
	plain    = "\x1b[0m"
	bold     = "\x1b[1m"
	faint    = "\x1b[2m"
	red      = "\x1b[31m"
	inverted = "\x1b[7m"
)

// topLine is a line of the screen.
type topLine struct{ text, style string }

// topColumn is a column of a table.
type topColumn[T any] struct {
	head string
	// width is in characters. It is negative if texts begin at the left, and zero if the column is left out.
	width int
	text  func(row *T) string
}

// table draws a table: its head, and a line for each row. The width of a column does not follow its texts, so that nothing jumps while
// they change: longer ones are cut.
func table[T any](columns []topColumn[T], rows []T, style func(row *T) string) []topLine {
	line := func(text func(c *topColumn[T]) string) string {
		var cells []string
		for i := range columns {
			if c := &columns[i]; c.width != 0 {
				cells = append(cells, fmt.Sprintf("%*s", c.width, fit(text(c), max(c.width, -c.width))))
			}
		}
		return strings.Join(cells, " ")
	}
	lines := []topLine{{line(func(c *topColumn[T]) string { return c.head }), bold}}
	for i := range rows {
		lines = append(lines, topLine{line(func(c *topColumn[T]) string { return c.text(&rows[i]) }), style(&rows[i])})
	}
	return lines
}

// cut keeps the head of a table, and so many lines that it has most lines, with the selected one.
func cut(lines []topLine, most int) []topLine {
	if len(lines) <= most || most < 1 {
		return lines[:min(len(lines), max(0, most))]
	}
	from := max(1, slices.IndexFunc(lines, func(l topLine) bool { return l.style == inverted })-most+2)
	return append(lines[:1:1], lines[from:from+most-1]...)
}

// fit shortens a text to a width, of at least 1.
func fit(text string, width int) string {
	if r := []rune(text); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return text
}

// compact writes a number with few digits.
func compact(n int64) string {
	switch {
	case n >= 1_000_000_000:
		return fmt.Sprintf("%dG", n/1_000_000_000)
	case n >= 1_000_000:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 10_000:
		return fmt.Sprintf("%dk", n/1000)
	default:
		return strconv.FormatInt(n, 10)
	}
}

func title(rule string) string {
	if rule == noRule {
		return "no rule"
	}
	return printable(rule)
}

// rate writes a number of requests a second.
func rate(n float64) string {
	if n > 0 && n < 10 {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// part writes a part of a number, in percent.
func part(n, of float64) string {
	switch {
	case of == 0:
		return "-"
	case n > 0 && n < of/100:
		return "<1%"
	}
	return strconv.FormatFloat(100*n/of, 'f', 0, 64) + "%"
}

// short writes milliseconds in one unit, and a wait not shorter than it is.
func short(ms int64) string {
	switch d := time.Duration(ms) * time.Millisecond; {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", (ms+999)/1000)
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0fm", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0fh", d.Hours())
	default:
		return fmt.Sprintf("%dd", int64(d.Hours()/24))
	}
}

// sparkline draws the last values, the greatest as a full block.
func sparkline(values []float64, width int) string {
	values = values[max(0, len(values)-max(0, width)):]
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	line := make([]rune, len(values))
	for i, n := range values {
		line[i] = blocks[0]
		if n > 0 {
			line[i] = blocks[max(1, int(n/slices.Max(values)*float64(len(blocks)-1)))]
		}
	}
	return strings.TrimRight(string(line), " ")
}
