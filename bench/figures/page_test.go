package figures

import (
	"strings"
	"testing"
	"time"
)

// fake returns a report of made-up figures.
func fake(title string, quiet ...float64) *Report {
	r := &Report{
		Title: title, About: "About it.", Quiet: quiet, Notes: []string{"A note."},
		Bars: []Bar{
			{Promise: "fast: ≤ 3 × slow", Found: "5.0 µs : 2.5 µs = 2.00 (1.90–2.10)", Measured: true, Holds: true},
			{Promise: "fast: ≤ 1 × slow", Found: "5.0 µs : 2.5 µs = 2.00 (1.90–2.10)", Measured: true},
			{Promise: "faster"},
		},
		Command: "bench -part it", Machine: "a machine", Day: time.Date(2026, time.November, 3, 0, 0, 0, 0, time.UTC),
	}
	r.Publish("Shown", "Text.", Table{{"", "µs"}, {"fast", "2 (-1–3)"}})
	r.Add("Hidden", "", Table{{"", "µs"}, {"slow", "7"}})
	return r
}

// A run replaces its own part of a page, and nothing else.
func TestRunsReplaceTheirOwnPart(t *testing.T) {
	const section = `
## One

The run of 3 November 2026, by ` + "`bench -part it`" + `
on a machine.

About it.

### Bars

1 of 2 hold. These do not:

| bar              | measured               |
|------------------|------------------------|
| fast: ≤ 1 × slow | 5.0 µs : 2.5 µs = 2.00 |

### Shown

Text.

|      | µs |
|------|----|
| fast | 2  |

### Notes

- A note.
`
	page := Page("", []*Report{fake("One", 0.9, 0.8, 0.85)})
	if want := "# Benchmarks\n\nThe machine was quiet during all runs of this page.\n\n" + pageAbout + "\n" + section; page != want {
		t.Errorf("got\n%s\nwant\n%s", page, want)
	}
}

// TestPageReplacesParts checks that a page keeps the parts that were not measured, and says first which runs were disturbed.
func TestPageReplacesParts(t *testing.T) {
	first := func(page string) string { return strings.Split(page, "\n")[2] }
	page := Page("", []*Report{fake("One", 0.84), fake("Two", 0.99), fake("Three")})
	if want := "**The machine was not quiet** during the runs of these parts, so their figures are rough: One."; first(page) != want {
		t.Errorf("got %s", first(page))
	}
	if want := "## One\n\n**The machine was not quiet**: each of two goroutines that only compute ran at 0.84 of the speed of one.\n\nThe run"; !strings.Contains(page, want) {
		t.Errorf("the page lacks %q:\n%s", want, page)
	}
	if again := Page(page, nil); again != page {
		t.Errorf("without reports, the page changes to\n%s", again)
	}
	page = Page(page, []*Report{fake("Four", 0.5), fake("Two", 0.3)})
	if want := "**The machine was not quiet** during the runs of these parts, so their figures are rough: One; Two; Four."; first(page) != want {
		t.Errorf("got %s", first(page))
	}
	var titles []string
	for _, section := range strings.Split(page, "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		titles = append(titles, title)
	}
	if got := strings.Join(titles, ", "); got != "One, Two, Three, Four" {
		t.Errorf("the parts are %s", got)
	}
	page = Page(page, []*Report{fake("One", 1), fake("Two", 1), fake("Four", 1)})
	if want := "The machine was quiet during all runs of this page."; first(page) != want {
		t.Errorf("got %s", first(page))
	}
}

// TestPageWithoutFailures checks that a part whose bars all hold has no table of them.
func TestPageWithoutFailures(t *testing.T) {
	r := fake("One", 1)
	r.Bars = r.Bars[:1]
	if page := Page("", []*Report{r}); !strings.Contains(page, "### Bars\n\n1 of 1 hold.\n\n### Shown\n") {
		t.Errorf("got\n%s", page)
	}
}

// TestShortRunsSaySo checks that nobody takes the figures of a short run for others.
func TestShortRunsSaySo(t *testing.T) {
	r := fake("One", 1)
	r.Short = true
	for _, text := range []string{r.Text(), Page("", []*Report{r})} {
		if !strings.Contains(text, "\nA short run: these figures mean little.\n") {
			t.Errorf("not in\n%s", text)
		}
	}
	if text := r.Text(); !strings.Contains(text, "| slow | 7  |") || !strings.Contains(text, "| fast | 2 (-1–3) |") {
		t.Errorf("the report lacks a table or a spread:\n%s", text)
	}
}
