package suggest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
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

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	b := &strings.Builder{}
	const form = "2 Jan 2006 15:04"
	fmt.Fprintf(b, "%s lines, %s not of the format; fitted to %s – %s UTC, measured on the rest until %s\n", page.Group(r.Lines), page.Group(r.Bad), r.From.Format(form), r.Split.Format(form), r.To.Format(form))
	for i := range r.Rules {
		r.rule(b, &r.Rules[i])
	}
	for _, u := range r.Unevaluated {
		fmt.Fprintf(b, "\n%s needs %s: %s\n", replay.Inert(u.Name), replay.Inert(u.Lacks), replay.Inert(u.Remedy))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rule writes a rule.
func (r *Report) rule(b *strings.Builder, rule *Rule) {
	fmt.Fprintf(b, "\n%s, by %s: %s requests of %s clients\n", replay.Inert(rule.Name), replay.Inert(strings.Join(rule.Key, " and ")), page.Group(rule.Requests), page.Group(rule.Keys))
	if rule.Refused != "" {
		fmt.Fprintf(b, "  no suggestion: %s.\n", replay.Inert(rule.Refused))
	} else {
		r.curve(b, rule)
	}
	if rule.Now != nil {
		fmt.Fprintf(b, "\n  The file has %s.\n  %s\n", replay.Inert(rule.Now.Limit), rule.Now.Measured)
	}
}

// curve writes the curve of a rule, and the suggestions.
func (r *Report) curve(b *strings.Builder, rule *Rule) {
	fmt.Fprintf(b, "  The burst that a share of the clients needs at a rate, so that none of their requests is denied:\n\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "  rate\t")
	for _, q := range shown(len(rule.Curve[0].Bursts)) {
		fmt.Fprintf(t, "%s\t", percent(q))
	}
	fmt.Fprintln(t)
	for i, p := range rule.Curve {
		fmt.Fprintf(t, "  %s\t", p.Rate)
		for _, burst := range p.Bursts {
			fmt.Fprintf(t, "%s\t", page.Group(burst))
		}
		if i == rule.Knee {
			fmt.Fprint(t, " ← the curve bends here")
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // a Builder takes everything
	for _, s := range [...]*Suggestion{rule.Bucket, rule.Window} {
		fmt.Fprintf(b, "\n  %s\n  %s\n\n", s.Limit, s.Measured)
		for line := range strings.Lines(s.YAML + "\n") {
			b.WriteString("    " + line)
		}
	}
}

// String returns what was measured, in words.
func (m Measured) String() string {
	if m.Requests == 0 {
		return "The measured part has no request of the rule, so nothing is measured."
	}
	return fmt.Sprintf("On the measured part, it limits %s of %s clients (%s) and %s of %s requests (%s).",
		page.Group(m.LimitedKeys), page.Group(m.Keys), percent(share(m.LimitedKeys, m.Keys)),
		page.Group(m.LimitedRequests), page.Group(m.Requests), percent(share(m.LimitedRequests, m.Requests)))
}

func share(part, whole int64) float64 { return float64(part) / float64(max(1, whole)) }

// shown returns the shares of a point with so many bursts: the last one is of all keys.
func shown(n int) []float64 { return append(append([]float64{}, Quantiles[:n-1]...), 1) }

// percent writes a share.
func percent(share float64) string {
	text := fmt.Sprintf("%.2f", 100*share)
	if share > 0 && text == "0.00" {
		return "<0.01%"
	}
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + "%"
}
