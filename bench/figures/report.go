package figures

import (
	"fmt"
	"strings"
	"time"
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

// A Report is what one part found.
type Report struct {
	Title string
	// Host says where the figures come from, besides the machine.
	Host string
	// About says how the figures were measured.
	About string
	// Quiet holds the results of Quiet, one per round.
	Quiet    []float64
	Bars     []Bar
	Sections []Section
	Notes    []string

	// The run that measured the figures: a short one or not, its command, machine and day.
	Short            bool
	Command, Machine string
	Day              time.Time
}

// A Section is a table under a title and a text.
type Section struct {
	Title, Text string
	Table       Table
	published   bool
}

// Add adds a section that the page does not have.
func (r *Report) Add(title, text string, t Table) {
	r.Sections = append(r.Sections, Section{title, text, t, false})
}

// Publish adds a section that the page has too.
func (r *Report) Publish(title, text string, t Table) {
	r.Sections = append(r.Sections, Section{title, text, t, true})
}

// barsTitle is the title of the section of bars.
const barsTitle = "Bars"

// method explains how figures come from rounds.
const method = `A figure is the median of interleaved rounds. A ratio is the median of the ratios of the rounds, because a disturbance
affects both sides.`

// run describes the run.
func (r *Report) run() string {
	text := fmt.Sprintf("The run of %s, by `%s`\non %s%s.\n\n", r.Day.Format("2 January 2006"), r.Command, r.Machine, r.Host)
	if r.Short {
		text += "A short run: these figures mean little.\n\n"
	}
	return text
}

// Text returns the whole report in Markdown, aligned to be read as it is.
func (r *Report) Text() string {
	var w strings.Builder
	fmt.Fprintf(&w, "# %s\n\n%s%s The lowest and the highest are in brackets.\n\n%s\n\n", r.Title, r.run(), method, r.About)
	if len(r.Quiet) > 0 {
		fmt.Fprintf(&w, "Was the machine quiet? Each of two goroutines that only compute ran at %s of the speed of one.\n\n",
			Summarize(r.Quiet).Text(2))
	}
	Section{Title: barsTitle, Table: BarTable(r.Bars)}.write(&w, "##")
	for _, s := range r.Sections {
		s.write(&w, "##")
	}
	r.writeNotes(&w, "##")
	return strings.TrimRight(w.String(), "\n") + "\n"
}

func (r *Report) writeNotes(w *strings.Builder, level string) {
	if len(r.Notes) == 0 {
		return
	}
	fmt.Fprintf(w, "%s Notes\n\n", level)
	for _, n := range r.Notes {
		fmt.Fprintf(w, "- %s\n", n)
	}
	w.WriteString("\n")
}

// write writes the section, unless its table has no rows. Bars may all hold.
func (s Section) write(w *strings.Builder, level string) {
	t := s.Table
	if len(t) < 2 && s.Title != barsTitle {
		return
	}
	fmt.Fprintf(w, "%s %s\n\n", level, s.Title)
	if s.Text != "" {
		fmt.Fprintf(w, "%s\n\n", s.Text)
	}
	if len(t) < 2 {
		return
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
