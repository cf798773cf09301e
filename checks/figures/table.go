package figures

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Table is rows of cells; the first row is the head.
type Table [][]string

// Append adds a row, unless all its cells but the first are empty.
func (t *Table) Append(row []string) {
	if strings.Join(row[1:], "") != "" {
		*t = append(*t, row)
	}
}

// Section writes a table under a title and a text, in Markdown that is aligned
// to be read as it is. A table without rows is left out with its title.
func Section(w *strings.Builder, title, text string, t Table) {
	if len(t) < 2 {
		return
	}
	fmt.Fprintf(w, "## %s\n\n", title)
	if text != "" {
		fmt.Fprintf(w, "%s\n\n", text)
	}
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range t {
		for i, cell := range row {
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		w.WriteString("|\n")
		if n == 0 {
			for _, width := range widths {
				fmt.Fprintf(w, "|%s", strings.Repeat("-", width+2))
			}
			w.WriteString("|\n")
		}
	}
	w.WriteString("\n")
}
