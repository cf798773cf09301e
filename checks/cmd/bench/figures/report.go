package figures

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Bar is a promise about a figure.
type Bar struct {
	Promise  string
	Found    string // what was measured
	Measured bool
	Holds    bool
}

// Verdict returns the verdict in words.
func (b Bar) Verdict() string {
	switch {
	case !b.Measured:
		return "not measured"
	case b.Holds:
		return "holds"
	}
	return "**does not hold**"
}

// Failed returns how many bars were measured and do not hold.
func Failed(bars []Bar) int {
	n := 0
	for _, b := range bars {
		if b.Measured && !b.Holds {
			n++
		}
	}
	return n
}

// BarTable returns the table of bars.
func BarTable(bars []Bar) Table {
	t := Table{{"bar", "measured", "verdict"}}
	for _, b := range bars {
		t = append(t, []string{b.Promise, b.Found, b.Verdict()})
	}
	return t
}

// A Table is rows of cells. The first row is the head.
type Table [][]string

// Append adds a row, unless all its cells but the first are empty.
func (t *Table) Append(row []string) {
	if strings.Join(row[1:], "") != "" {
		*t = append(*t, row)
	}
}

// A Report is what one suite of the benchmark found.
type Report struct {
	Title string
	// Host says where the figures come from, besides the machine.
	Host string
	// Quick is set for a short run.
	Quick bool
	// About says how the figures were measured.
	About string
	// Quiet holds the results of Quiet, one per round.
	Quiet    []float64
	Bars     []Bar
	Sections []Section
	Notes    []string
}

// A Section is a table under a title and a text.
type Section struct {
	Title, Text string
	Table       Table
}

// Add adds a section.
func (r *Report) Add(title, text string, t Table) {
	r.Sections = append(r.Sections, Section{title, text, t})
}

// Text returns the report in Markdown, aligned to be read as it is. The command measures the same
// again.
func (r *Report) Text(command string) string {
	var w strings.Builder
	fmt.Fprintf(&w, "# %s\n\nWritten by `%s`\non %s%s.\n\n", r.Title, command, Machine(), r.Host)
	if r.Quick {
		w.WriteString("A short run: these figures mean little.\n\n")
	}
	fmt.Fprintf(&w, "%s\n\n", r.About)
	if len(r.Quiet) > 0 {
		fmt.Fprintf(&w, "Was the machine quiet? Each of two goroutines that only compute ran at %s of the speed of one.\n\n",
			Summarize(r.Quiet).Text(2))
	}
	Section{"Bars", "", BarTable(r.Bars)}.write(&w)
	for _, s := range r.Sections {
		s.write(&w)
	}
	if len(r.Notes) > 0 {
		w.WriteString("## Notes\n\n")
		for _, n := range r.Notes {
			fmt.Fprintf(&w, "- %s\n", n)
		}
	}
	return strings.TrimRight(w.String(), "\n") + "\n"
}

// write writes the section, unless its table has no rows.
func (s Section) write(w *strings.Builder) {
	t := s.Table
	if len(t) < 2 {
		return
	}
	fmt.Fprintf(w, "## %s\n\n", s.Title)
	if s.Text != "" {
		fmt.Fprintf(w, "%s\n\n", s.Text)
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
