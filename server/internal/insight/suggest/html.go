package suggest

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/server/internal/insight/page"
)

//go:embed page.html
var body string

var document = page.Must(body) //nolint:gochecknoglobals // a template that a test executes

// WriteHTML writes the report as a page.
func (r *Report) WriteHTML(w io.Writer) error { return document.Write(w, "Limits that fit the log", r) }

// Suggestions returns the suggested limits.
func (r *Rule) Suggestions() []*Suggestion { return []*Suggestion{r.Bucket, r.Window} }

// Short returns the share of clients that the limit denied on the measured part.
func (s *Suggestion) Short() string {
	if s.Measured.Keys == 0 {
		return "not measured"
	}
	return cmp.Or(page.Percent(s.Measured.LimitedKeys, s.Measured.Keys), "0%") + " limited"
}

// Shares returns the shares of the columns of the curve.
func (r *Rule) Shares() (texts []string) {
	for _, q := range shown(len(r.Curve[0].Bursts)) {
		texts = append(texts, page.Share(q))
	}
	return texts
}

// CurveChart draws the bursts against the rates, with the suggestion and the limit of the file as points.
func (r *Rule) CurveChart() *page.Chart {
	c := &page.Chart{Title: "Burst that shares of the clients need, by rate", Log: true, XName: "rate", YName: "Burst"}
	shares := r.Shares()
	c.Lines = make([]page.Line, len(shares))
	for _, p := range r.Curve {
		c.X = append(c.X, float64(p.Count))
		for i, burst := range p.Bursts {
			c.Lines[i].Values = append(c.Lines[i].Values, float64(burst))
		}
	}
	for i := range c.Lines {
		c.Lines[i].Name, c.Lines[i].Class = shares[i], fmt.Sprintf("q%d", i)
	}
	c.Lines[len(c.Lines)-1].Class = "q4"
	c.Marks = append(c.Marks, page.Mark{Name: "suggested", Class: "passed", X: float64(r.Bucket.Count), Y: float64(r.Bucket.Burst)})
	if r.Now != nil && r.Now.Count > 0 {
		c.Marks = append(c.Marks, page.Mark{Name: "in the file", Class: "limited", X: float64(r.Now.Count), Y: float64(r.Now.Burst)})
	}
	return c
}

// DeniedCharts draws, for each rate of the curve, how many clients of the fitted part a burst would have denied.
func (r *Rule) DeniedCharts() (charts []*page.Chart) {
	highest := 1.0
	for _, p := range r.Curve {
		highest = max(highest, float64(p.Bursts[len(p.Bursts)-1]))
	}
	for _, p := range r.Curve {
		line := page.Line{Name: "denied clients at " + p.Rate, Class: "limited"}
		c := &page.Chart{Title: line.Name + ", by burst", Log: true, XName: "burst", YName: "Clients"}
		for burst := 1.0; ; burst *= 1.25 {
			burst = min(math.Ceil(burst), highest)
			c.X = append(c.X, burst)
			line.Values = append(line.Values, float64(above(r.bursts[slices.Index(grid, p.Count)], int64(burst))))
			if burst == highest {
				break
			}
		}
		c.Lines = []page.Line{line}
		charts = append(charts, c)
	}
	return charts
}

// Choice returns the style by which the buttons of a rule select its charts.
func (r *Rule) Choice(rule int) template.CSS {
	var b strings.Builder
	for i := range r.Curve {
		fmt.Fprintf(&b, "#r%d-%d:checked~.v%d-%d{display:block}", rule, i, rule, i)
	}
	return template.CSS(b.String()) //nolint:gosec // it has numbers only
}
