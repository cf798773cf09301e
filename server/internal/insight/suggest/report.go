package suggest

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/page"
	"github.com/sluicehq/sluice/server/internal/insight/replay"
)

// Report is what was suggested. It is the document that --json writes.
type Report struct {
	Version     int                  `json:"version"` // of this document: 1
	Per         string               `json:"per"`     // the period of rates
	Share       float64              `json:"share"`   // of the keys that limits are fitted to
	Headroom    float64              `json:"headroom"`
	Lines       int64                `json:"lines"`
	Bad         int64                `json:"bad"` // lines that are not of the format
	From        time.Time            `json:"from"`
	Split       time.Time            `json:"split"` // limits are fitted before it, and measured after it
	To          time.Time            `json:"to"`
	Rules       []Rule               `json:"rules"`
	Unevaluated []replay.Unevaluated `json:"unevaluated"`
}

// Rule is what the keys of a rule need.
type Rule struct {
	Name     string      `json:"name"`
	Key      []string    `json:"key"`
	Requests int64       `json:"requests"`          // of the fitted part
	Keys     int64       `json:"keys"`              // of the fitted part
	Refused  string      `json:"refused,omitempty"` // why there is no suggestion
	Curve    []Point     `json:"curve"`
	Knee     int         `json:"knee"` // the index of the suggested rate in the curve
	Bucket   *Suggestion `json:"token_bucket,omitempty"`
	Window   *Suggestion `json:"fixed_window,omitempty"`
	Now      *Suggestion `json:"now,omitempty"` // the limits of the file

	rule   *policy.Rule
	bursts [][]int64 // of each rate of the grid: the bursts that the keys need, in ascending order
}

// Quantiles are the shares of keys in a Point.
var Quantiles = [...]float64{0.5, 0.9, 0.99, 0.999, 1} //nolint:gochecknoglobals // a table

// Point is a rate, and the bursts with which shares of the keys are never denied. With few keys, high shares are left out
// except the last, which is all keys.
type Point struct {
	Rate   string  `json:"rate"`
	Count  int64   `json:"count"` // units a period
	Bursts []int64 `json:"bursts"`
}

// Suggestion is a limit, and what it did on the measured part.
type Suggestion struct {
	Limit    string   `json:"limit"`
	Count    int64    `json:"count"` // units a period
	Burst    int64    `json:"burst,omitempty"`
	YAML     string   `json:"yaml,omitempty"`
	Measured Measured `json:"measured"`
}

// Measured is what a limit did.
type Measured struct {
	Requests        int64 `json:"requests"`
	LimitedRequests int64 `json:"limited_requests"`
	Keys            int64 `json:"keys"`
	LimitedKeys     int64 `json:"limited_keys"`
}

//go:embed report.txt
var lines string

//nolint:gochecknoglobals // a template that a test executes
var terminal = page.MustText(lines, template.FuncMap{"indent": func(yaml string) string { return strings.ReplaceAll(yaml, "\n", "\n    ") }})

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error { return terminal.Write(w, r) }

// String returns what was measured, in words.
func (m Measured) String() string {
	if m.Requests == 0 {
		return "The measured part has no request of the rule, so nothing is measured."
	}
	return fmt.Sprintf("On the measured part, it limits %s of %s clients (%s) and %s of %s requests (%s).",
		page.Group(m.LimitedKeys), page.Group(m.Keys), cmp.Or(page.Percent(m.LimitedKeys, m.Keys), "0%"),
		page.Group(m.LimitedRequests), page.Group(m.Requests), cmp.Or(page.Percent(m.LimitedRequests, m.Requests), "0%"))
}

// shown returns the shares of a point with so many bursts: the last one is of all keys.
func shown(n int) []float64 { return append(append([]float64{}, Quantiles[:n-1]...), 1) }
