package cli

import (
	"fmt"
	"slices"
	"strings"
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

// columns returns a function that makes a line of a table. A width is in characters: negative if texts begin at the
// left, and zero if the column is left out. It does not follow the texts, so that nothing jumps while they change:
// longer ones are cut.
func columns(widths ...int) func(style string, cells ...string) topLine {
	return func(style string, cells ...string) topLine {
		var shown []string
		for i, width := range widths {
			if width != 0 {
				shown = append(shown, fmt.Sprintf("%*s", width, fit(cells[i], max(width, -width))))
			}
		}
		return topLine{strings.Join(shown, " "), style}
	}
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

func title(rule string) string {
	if rule == noRule {
		return "no rule"
	}
	return printable(rule)
}

// rate writes a number of requests a second.
func rate(n float64) string {
	if n > 0 && n < 10 {
		return fmt.Sprintf("%.1f/s", n)
	}
	return fmt.Sprintf("%.0f/s", n)
}

// part writes a part of a number, in percent.
func part(n, of float64) string {
	switch {
	case of == 0:
		return "-"
	case n > 0 && n < of/100:
		return "<1%"
	}
	return fmt.Sprintf("%.0f%%", 100*n/of)
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
