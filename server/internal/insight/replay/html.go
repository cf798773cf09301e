package replay

import (
	_ "embed"
	"io"
	"time"

	"github.com/sluicehq/sluice/server/internal/describe"
	"github.com/sluicehq/sluice/server/internal/insight/page"
)

//go:embed page.html
var body string

var document = page.Must(body) //nolint:gochecknoglobals // a template that a test executes

// WriteHTML writes the report as a page.
func (r *Report) WriteHTML(w io.Writer) error {
	return document.Write(w, "What "+page.Inert(r.Policy)+" would have limited", r)
}

// TimeChart draws all requests over time.
func (r *Report) TimeChart() *page.Chart {
	t := &r.Timeline
	x, labels := page.Times(t.Start, t.Step, len(t.Demand))
	c := &page.Chart{
		Title: "Requests over time: demand, and what passes", X: x, Labels: labels, YName: "Requests in " + describe.Duration(time.Duration(t.Step)*time.Second),
		Lines: []page.Line{
			{Name: "demand", Class: "demand", Values: page.Numbers(t.Demand), Area: true},
			{Name: "passes now", Class: "passed", Values: page.Numbers(t.Passed), Area: true},
		},
	}
	if t.Before != nil {
		c.Lines = append(c.Lines, page.Line{Name: "passed before", Class: "before", Values: page.Numbers(t.Before)})
	}
	if r.Requests.Logged > 0 {
		c.Lines = append(c.Lines, page.Line{Name: "limited in the log", Class: "limited", Values: page.Numbers(t.Logged)})
	}
	return c
}

// ShareChart draws how many clients had at least a share of their requests limited.
func (r *Report) ShareChart() *page.Chart {
	line := page.Line{Name: "clients with at least this share limited", Class: "limited", Area: true}
	c := &page.Chart{Title: "Clients by the share of their requests that is limited", XName: "% of a client's requests", YName: "Clients"}
	for _, s := range r.Shares {
		c.X = append(c.X, 100*s.Share)
		line.Values = append(line.Values, float64(s.Clients))
	}
	c.Lines = []page.Line{line}
	return c
}

// Bars draws demand and its limited part.
func (r *Report) Bars(name string, demand, limited []int64) *page.Bars {
	return page.NewBars(page.Inert(name)+": requests over time, and the limited ones", demand, limited)
}

// Limited reports whether the policy before limits the requests.
func (c Cell) Limited() bool { return c.Before != nil && *c.Before }
