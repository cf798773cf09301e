package figures

import (
	"fmt"
	"regexp"
	"strings"
)

// leastQuiet is how fast each of two goroutines must run beside the other, compared with one goroutine. Less means that
// other processes had a part of the machine.
const leastQuiet = 0.85

// notQuiet begins a section whose run was disturbed.
const notQuiet = "**The machine was not quiet**"

// spread matches the lowest and the highest value of a figure.
var spread = regexp.MustCompile(` \(-?[\d.]+–-?[\d.]+\)`)

// Page returns the published page, in which these reports replace their parts. Other parts stay as they are in the old
// page. The page has medians only.
func Page(old string, reports []*Report) string {
	var order []string // the titles
	sections := map[string]string{}
	put := func(title, text string) {
		if _, found := sections[title]; !found {
			order = append(order, title)
		}
		sections[title] = strings.TrimRight(text, "\n")
	}
	for _, text := range strings.Split("\n"+old, "\n## ")[1:] {
		title, _, _ := strings.Cut(text, "\n")
		put(title, text)
	}
	for _, r := range reports {
		put(r.Title, r.section())
	}
	var w strings.Builder
	w.WriteString("# Benchmarks\n\n" + verdict(order, sections) + "\n\n" + pageAbout + "\n")
	for _, title := range order {
		w.WriteString("\n## " + sections[title] + "\n")
	}
	return w.String()
}

// pageAbout explains the tables of all parts.
const pageAbout = `Each part has one run, and its tables have only that run's figures.
` + method + `
The command also prints the lowest and the highest values, all bars, more tables and the versions. A floor is the least
work that a task can cost; [bench](../bench) has the floors and the workloads. This page is generated:
` + "`make bench ARGS=\"-o ../docs/benchmarks.md\"`" + ` replaces the parts that it measures, and so do the other targets.`

// verdict says which parts had a quiet machine.
func verdict(order []string, sections map[string]string) string {
	var disturbed []string
	for _, title := range order {
		if strings.Contains(sections[title], notQuiet) {
			disturbed = append(disturbed, title)
		}
	}
	if len(disturbed) == 0 {
		return "The machine was quiet during all runs of this page."
	}
	return notQuiet + " during the runs of these parts, so their figures are rough: " + strings.Join(disturbed, "; ") + "."
}

// section returns the part of the page for a report, from its title on.
func (r *Report) section() string {
	var w strings.Builder
	w.WriteString(r.Title + "\n\n")
	if q := Summarize(r.Quiet); len(r.Quiet) > 0 && q.Median < leastQuiet {
		fmt.Fprintf(&w, "%s: each of two goroutines that only compute ran at %s of the speed of one.\n\n", notQuiet, q.Text(2))
	}
	w.WriteString(r.run() + r.About + "\n\n")
	r.bars().medians().write(&w, "###")
	for _, s := range r.Sections {
		if s.published {
			s.medians().write(&w, "###")
		}
	}
	r.writeNotes(&w, "###")
	return w.String()
}

// bars returns a section with the bars that do not hold, and with how many there are.
func (r *Report) bars() Section {
	t := Table{{"bar", "measured"}}
	measured := 0
	for _, b := range r.Bars {
		if !b.Measured {
			continue
		}
		if measured++; !b.Holds {
			t = append(t, []string{b.Promise, b.Found})
		}
	}
	text := fmt.Sprintf("%d of %d hold.", measured-len(t)+1, measured)
	if len(t) > 1 {
		text += " These do not:"
	}
	return Section{Title: barsTitle, Text: text, Table: t}
}

// medians returns the section without the spreads of its figures.
func (s Section) medians() Section {
	t := Table{}
	for _, row := range s.Table {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = spread.ReplaceAllString(cell, "")
		}
		t = append(t, cells)
	}
	s.Table = t
	return s
}
