package page

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A chart stays within its picture, whatever its numbers are, and has no number that is not finite.
func TestChartsStayInside(t *testing.T) {
	x, labels := Times(time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC), 60, 30)
	for name, c := range map[string]*Chart{
		"empty":     {Title: "t"},
		"one point": {X: []float64{0}, Lines: []Line{{Values: []float64{5}, Area: true}}},
		"zeros":     {X: []float64{0, 1}, Lines: []Line{{Values: []float64{0, 0}}}},
		"times":     {X: x, Labels: labels, Lines: []Line{{Values: make([]float64, 30)}, {Values: x}}},
		"logs":      {Log: true, X: []float64{1, 10, 1e6}, Lines: []Line{{Values: []float64{1e9, 0, 1}}}, Marks: []Mark{{X: 5e6, Y: 3}, {X: 0, Y: 0}}},
		"level":     {Log: true, X: []float64{7}, Lines: []Line{{Values: []float64{7}}}},
	} {
		var b strings.Builder
		if err := Must(`{{template "chart" .}}`).Write(&b, "t", c); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Errorf("%s: the chart has a number that is not finite: %s", name, b.String())
		}
		for _, m := range regexp.MustCompile(`[ML]([-\d.]+) ([-\d.]+)`).FindAllStringSubmatch(b.String(), -1) {
			px, _ := strconv.ParseFloat(m[1], 64)
			py, _ := strconv.ParseFloat(m[2], 64)
			if px < left-0.1 || px > width-right+0.1 || py < top-0.1 || py > height-bottom+0.1 {
				t.Errorf("%s: a line is at %s, outside of the picture", name, m[0])
			}
		}
	}
}

// Hostile texts stay texts in a page.
func TestTextsOfPagesStayTexts(t *testing.T) {
	var b strings.Builder
	hostile := `"><script>alert(1)</script>&{{.}}`
	c := &Chart{Title: hostile, X: []float64{0, 1}, Lines: []Line{{Name: hostile, Values: []float64{1, 2}}}, Marks: []Mark{{Name: hostile, X: 1, Y: 1}}}
	if err := Must(`<p title="{{.Title}}">{{.Title}}</p>{{template "chart" .}}`).Write(&b, hostile, c); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<script") || !strings.Contains(b.String(), "&lt;script") {
		t.Errorf("the page has a script: %s", b.String())
	}
}

// Bars show each limited request, however many others there are.
func TestBarsShowFewLimitedRequests(t *testing.T) {
	demand, limited := make([]int64, 240), make([]int64, 240)
	demand[7], demand[100], limited[100] = math.MaxInt32, 1, 1
	shown := 0
	for _, b := range NewBars("t", demand, limited).Bars {
		if b.LH > 1 {
			shown++
		}
	}
	if shown != 1 {
		t.Errorf("%d bars show a limited request, want 1", shown)
	}
}
