package overfleet

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/bench/figures"
	"github.com/sluicehq/sluice/checks/fleet"
)

// TestBarsOverAFleet checks that figures at a bar hold, that figures beyond it do not, and that a bar without
// figures is not measured.
func TestBarsOverAFleet(t *testing.T) {
	measured := func(factor float64) figures.Results {
		r := figures.Results{}
		set := func(metric, subject string, v float64) { r.Set(metric, subject, figures.Once(v)) }
		set(metricLocal, fleet.Memory, 100)
		set(metricLocal, fleet.Hybrid, 160*factor)
		set(metricAllocs, fleet.Hybrid, factor-1)
		for _, n := range raceCallers {
			set(cell("hot", n), fleet.Exact, 100)
			set(cell("hot", n), fleet.Hybrid, 3000/factor)
			for _, step := range []string{"hot", "zipf"} {
				set(metricOf(cell(step, n), metricP99), fleet.Exact, 200)
				set(metricOf(cell(step, n), metricP99), fleet.Hybrid, 10*factor)
			}
			set(metricOf(cell("hot", n), metricCalls), fleet.Hybrid, factor/200)
		}
		set(metricOf("twice", metricAdmitted), fleet.Hybrid, 100*factor)
		set(metricOf("twice", metricOver), fleet.Hybrid, factor-1)
		set(metricOf("low", metricAdmitted), fleet.Hybrid, 99/factor)
		set(metricOf("low", metricLocally), fleet.Hybrid, 5*factor)
		return r
	}
	for _, b := range judge(measured(1)) {
		if !b.Measured || !b.Holds || b.Found == "" {
			t.Errorf("%s: a figure at its bar should hold: %s: %s", b.Promise, b.Found, b.Verdict())
		}
	}
	beyond := judge(measured(1.1))
	for _, b := range beyond {
		if b.Holds {
			t.Errorf("%s: a figure beyond its bar should not hold: %s: %s", b.Promise, b.Found, b.Verdict())
		}
	}
	for _, b := range judge(figures.Results{}) {
		if b.Measured {
			t.Errorf("%s: %s of nothing", b.Promise, b.Verdict())
		}
	}
}

// A curve counts what was admitted in each second.
func TestCurvesCountEachSecond(t *testing.T) {
	second := int64(time.Second)
	c := curve{at: []int64{0, second - 1, second, 3 * second}}
	if got := c.windows(3); !slices.Equal(got, []int{2, 1, 0}) {
		t.Errorf("got %v", got)
	}
}

// TestPlotIsXML draws a plot and reads it as XML.
func TestPlotIsXML(t *testing.T) {
	var curves []curve
	for i, n := range plotNames {
		c := curve{subject: n[0]}
		for at := range 100 * (i + 1) {
			c.at = append(c.at, int64(at)*int64(10*time.Millisecond))
		}
		curves = append(curves, c)
	}
	text := draw(curves, 4)
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range plotNames {
		if strings.Count(text, plotColors[n[0]]) != 1+1+4 {
			t.Errorf("the plot has no legend, curve and bars of %s", n[1])
		}
	}
}

// The top of an axis is a round number that is not below the value.
func TestAxesEndAtRoundNumbers(t *testing.T) {
	for v, want := range map[float64]float64{1000: 1200, 8000: 8000, 8001: 12000, 39: 40, 41: 80} {
		if got := roundUp(v); got != want {
			t.Errorf("%v: got %v, want %v", v, got, want)
		}
	}
}
