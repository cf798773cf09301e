package replay

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/sluicehq/sluice/server/internal/insight/page"
)

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s requests of %s clients (by %s), %s to %s UTC\n", page.Group(r.Requests.Total), page.Group(r.Clients.Total), Inert(r.Clients.By),
		r.Log.From.Format("2 Jan 2006 15:04:05"), r.Log.To.Format("2 Jan 2006 15:04:05"))
	fmt.Fprintf(b, "read as %s: %s lines", Inert(r.Log.Format), page.Group(r.Log.Lines))
	for _, n := range [...]struct {
		n    int64
		what string
	}{{r.Log.Bad, "not of the format"}, {r.Log.Unread, "without a request"}, {r.Log.Skipped, "outside of the time"}, {r.Log.LeftOut, "limited in the log and left out"}} {
		if n.n > 0 {
			fmt.Fprintf(b, ", %s %s", page.Group(n.n), n.what)
		}
	}
	b.WriteString("\n\n")
	r.totals(b)
	r.rules(b)
	r.names(b)
	if len(r.Unevaluated)+len(r.UnevaluatedBefore) > 0 {
		b.WriteString("\nNot evaluated, because the log lacks what they need:\n")
		for i, all := range [...][]Unevaluated{r.Unevaluated, r.UnevaluatedBefore} {
			for _, u := range all {
				of := [...]string{r.Policy, r.Against}[i]
				fmt.Fprintf(b, "  %s of %s needs %s: %s\n", Inert(u.Name), Inert(of), Inert(u.Lacks), Inert(u.Remedy))
			}
		}
	}
	r.check(b)
	if len(r.Log.BadLines) > 0 {
		b.WriteString("\nThe first lines that are not of the format:\n")
		for _, l := range r.Log.BadLines {
			fmt.Fprintf(b, "  %s:%d: %s: %s\n", Inert(l.File), l.Line, Inert(l.Why), Inert(l.Text))
		}
	}
	if len(r.Caveats) > 0 {
		b.WriteString("\n")
		for _, c := range r.Caveats {
			b.WriteString("note: " + Inert(c) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// totals writes what changes.
func (r *Report) totals(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(what string, requests, clients int64) {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\n", what, page.Group(requests), page.Percent(requests, r.Requests.Total), page.Group(clients), page.Percent(clients, r.Clients.Total))
	}
	before := "limited in the log"
	if r.Against != "" {
		before = "limited by " + Inert(r.Against)
	}
	fmt.Fprintf(t, "\trequests\t\tclients\t\t\n")
	line("limited by "+Inert(r.Policy), r.Requests.Limited, r.Clients.Limited)
	line(before, r.Requests.Before, r.Clients.Before)
	line("newly limited", r.NewlyLimited.Requests, r.NewlyLimited.Clients)
	line("freed", r.Freed.Requests, r.Freed.Clients)
	_ = t.Flush() // a Builder takes everything
	for _, n := range [...]struct {
		n    int64
		what string
	}{
		{r.Requests.Degraded, "degraded"},
		{r.Requests.Marked, "marked"},
		{r.Requests.Delayed, "delayed"},
		{r.Requests.Invalid, "refused by any policy, because services read them in different ways"},
		{r.Requests.Retries, "requests that came back; " + page.Group(r.Requests.Again) + " of them limited again"},
	} {
		if n.n > 0 {
			fmt.Fprintf(b, "%s %s\n", page.Group(n.n), n.what)
		}
	}
	if r.Clients.Unclear > 0 {
		fmt.Fprintf(b, "clients: %s surely limited, %s surely not, %s unclear\n", page.Group(r.Clients.Surely), page.Group(r.Clients.SurelyNot), page.Group(r.Clients.Unclear))
	}
}

// columns is the width of a sparkline.
const columns = 40

// rules writes a line for each rule.
func (r *Report) rules(b *strings.Builder) {
	if len(r.Rules) == 0 {
		return
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "rule\trequests\tlimited\t\tdelayed\tlimited over time\n")
	for _, rule := range r.Rules {
		name := Inert(rule.Name)
		if rule.Shadow {
			name += " (shadow)"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", name, page.Group(rule.Requests), page.Group(rule.Limited), page.Percent(rule.Limited, rule.Requests), page.Group(rule.Delayed), sparkline(rule.Over, columns))
		if rule.Trial > 0 {
			fmt.Fprintf(t, "  its candidate\t\t%s\t%s\t\t\n", page.Group(rule.Trial), page.Percent(rule.Trial, rule.Requests))
		}
	}
	_ = t.Flush() // a Builder takes everything
}

// names writes who is limited, and where.
func (r *Report) names(b *strings.Builder) {
	const shown = 10
	if len(r.LimitedClients) > 0 {
		b.WriteString("\n")
		t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "limited client\t\trequests\tlimited\t\tfirst\tby\n")
		for _, c := range r.LimitedClients[:min(shown, len(r.LimitedClients))] {
			newly := ""
			if c.Newly {
				newly = "newly"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", Inert(c.Client), newly, page.Group(c.Requests), page.Group(c.Limited), page.Percent(c.Limited, c.Requests), c.First.Format("02 Jan 15:04:05"), Inert(c.Rule))
		}
		_ = t.Flush() // a Builder takes everything
	}
	if len(r.Endpoints) > 0 {
		b.WriteString("\n")
		t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "limited endpoint\trequests\tlimited\t\n")
		for _, e := range r.Endpoints[:min(shown, len(r.Endpoints))] {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", shorten(Inert(e.Endpoint), 60), page.Group(e.Requests), page.Group(e.Limited), page.Percent(e.Limited, e.Requests))
		}
		_ = t.Flush() // a Builder takes everything
	}
}

// check writes how the verdicts of the log agree.
func (r *Report) check(b *strings.Builder) {
	c := r.Check
	if c == nil {
		return
	}
	fmt.Fprintf(b, "\ncheck: %s of %s logged verdicts agree\n", page.Group(c.Agreed), page.Group(c.Compared))
	if c.Within > 0 {
		fmt.Fprintf(b, "  %s of them at a time that differs by up to %gs, which is as exact as the log is\n", page.Group(c.Within), c.Resolution)
	}
	if c.NotCompared > 0 {
		fmt.Fprintf(b, "  %s are of rules that are not evaluated\n", page.Group(c.NotCompared))
	}
	for _, d := range c.Examples {
		fmt.Fprintf(b, "  %s:%d: the log has %s by %s, the replay %s\n", Inert(d.File), d.Line, Inert(d.Logged), Inert(d.Rule), Inert(d.Replay))
	}
}

// Inert returns a text without what terminals or readers could take for something else than text.
func Inert(text string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '\uFFFD'
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// sparkline draws counts with eight heights. A count that is not zero is never drawn as zero.
func sparkline(counts []int64, width int) string {
	cells := make([]int64, min(width, len(counts)))
	var most int64
	for i, n := range counts {
		at := i * len(cells) / len(counts)
		cells[at] += n
		most = max(most, cells[at])
	}
	var b strings.Builder
	for _, n := range cells {
		if n == 0 {
			b.WriteRune('·')
		} else {
			b.WriteRune([]rune("▁▂▃▄▅▆▇█")[(n*8-1)/most])
		}
	}
	return b.String()
}

// span writes a duration in its largest units.
func span(seconds int64) string {
	text := time.Duration(seconds * int64(time.Second)).String()
	for _, zero := range [...]string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
