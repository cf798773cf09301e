package page

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Chart draws lines over a common axis.
type Chart struct {
	Title  string // for readers that do not see the chart
	X      []float64
	Labels []string // of the points of X, all or none; a chart shows some
	Lines  []Line
	Marks  []Mark
	Log    bool // both axes have scales of logarithms
	YName  string
	XName  string
}

// Line is a line of a chart, with a value for each point of the axis.
type Line struct {
	Name   string
	Class  string // of the style: demand, passed, limited, before, or q0 to q4
	Values []float64
	Area   bool // the area below the line is filled
}

// Mark is a point of a chart with a name.
type Mark struct {
	Name, Class string
	X, Y        float64
}

// The size of a chart, and the margins around its area.
const (
	width, height            = 720, 260
	left, right, top, bottom = 58, 26, 10, 44
)

// Drawn is a chart with positions.
type Drawn struct {
	*Chart
	W, H           int
	Left, Right, Y int // of the area
	XTicks, YTicks []tick
	Paths          []path
	Points         []point
}

type tick struct {
	At   float64
	Text string
}

type path struct {
	Line
	D, Fill string
}

type point struct {
	Mark
	PX, PY float64
}

// Draw returns the chart with positions, for the template.
func (c *Chart) Draw() *Drawn {
	d := &Drawn{Chart: c, W: width, H: height, Left: left, Right: width - right, Y: height - bottom}
	least, most := math.Inf(1), 0.0
	for _, l := range c.Lines {
		for _, v := range l.Values {
			most = max(most, v)
			if v > 0 {
				least = min(least, v)
			}
		}
	}
	for _, m := range c.Marks {
		most = max(most, m.Y)
		least = min(least, max(m.Y, 1e-9))
	}
	from, to := 0.0, 1.0
	if len(c.X) > 0 {
		from, to = c.X[0], c.X[len(c.X)-1]
	}
	for _, m := range c.Marks {
		from, to = min(from, m.X), max(to, m.X)
	}
	x, y := scale{from: from, to: to, a: left, b: width - right}, scale{to: nice(most), a: height - bottom, b: top}
	if c.Log {
		x, y = logScale(from, to, left, width-right), logScale(least, most, height-bottom, top)
	}
	d.YTicks = y.ticks()
	if len(c.Labels) > 0 {
		for i := 0; i < len(c.X); i += 1 + (len(c.X)-1)/6 {
			d.XTicks = append(d.XTicks, tick{x.at(c.X[i]), c.Labels[i]})
		}
	} else {
		d.XTicks = x.ticks()
	}
	for _, l := range c.Lines {
		p := path{Line: l}
		var b strings.Builder
		for i, v := range l.Values {
			fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(i, 1)], x.at(c.X[i]), y.at(v))
		}
		if p.D = b.String(); l.Area && len(l.Values) > 0 {
			p.Fill = fmt.Sprintf("%sL%.1f %dL%.1f %dZ", p.D, x.at(c.X[len(l.Values)-1]), height-bottom, x.at(c.X[0]), height-bottom)
		}
		d.Paths = append(d.Paths, p)
	}
	for _, m := range c.Marks {
		d.Points = append(d.Points, point{m, x.at(m.X), y.at(m.Y)})
	}
	return d
}

// scale maps numbers to positions.
type scale struct {
	from, to float64
	a, b     float64 // the positions of from and to
	log      bool
}

// logScale returns a scale between powers of ten.
func logScale(from, to, a, b float64) scale {
	from, to = max(1e-9, min(from, to)), max(from, to, 1e-9)
	from, to = math.Pow(10, math.Floor(math.Log10(from)+1e-9)), math.Pow(10, math.Ceil(math.Log10(to)-1e-9))
	if to <= from {
		to = 10 * from
	}
	return scale{from, to, a, b, true}
}

// at returns the position of a number.
func (s scale) at(v float64) float64 {
	part := 0.0
	switch {
	case s.log:
		part = math.Log(max(v, s.from)/s.from) / math.Log(s.to/s.from)
	case s.to > s.from:
		part = (v - s.from) / (s.to - s.from)
	}
	return s.a + part*(s.b-s.a)
}

// ticks returns about five positions with round numbers.
func (s scale) ticks() (all []tick) {
	if s.log {
		every := 1 + int(math.Log10(s.to/s.from))/7
		for i, v := 0, s.from; v <= s.to*1.01; i, v = i+1, v*10 {
			if i%every == 0 {
				all = append(all, tick{s.at(v), short(v)})
			}
		}
		return all
	}
	step := nice((s.to - s.from) / 4)
	for v := s.from; v <= s.to*1.0001 && step > 0; v += step {
		all = append(all, tick{s.at(v), short(v)})
	}
	return all
}

// nice returns the next number with few digits.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, digit := range [...]float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10} {
		if digit*power >= v*0.999999 {
			return digit * power
		}
	}
	return 10 * power
}

// short writes a number in a few letters.
func short(v float64) string {
	for _, unit := range [...]struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.size {
			return fmt.Sprintf("%.3g%s", v/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.3g", v)
}

// Numbers converts counts.
func Numbers(counts []int64) []float64 {
	all := make([]float64, len(counts))
	for i, n := range counts {
		all[i] = float64(n)
	}
	return all
}

// Times returns an axis of n steps of a width in seconds, with labels.
func Times(start time.Time, step int64, n int) (x []float64, labels []string) {
	form := "15:04"
	switch span := step * int64(n); {
	case span > 10*86400:
		form = "2 Jan"
	case span > 86400:
		form = "2 Jan 15:04"
	case step < 60:
		form = "15:04:05"
	}
	for i := range n {
		x = append(x, float64(i))
		labels = append(labels, start.Add(time.Duration(int64(i)*step)*time.Second).Format(form))
	}
	return x, labels
}

// Bars is a small chart of demand, with the limited part.
type Bars struct {
	Title string
	W, H  int
	Bars  []bar
}

type bar struct{ X, Y, H, LY, LH float64 }

// The size of small charts.
const barWidth, barHeight = 3, 28

// NewBars returns a small chart. Limited is a part of demand.
func NewBars(title string, demand, limited []int64) *Bars {
	const most = 80
	n := min(most, len(demand))
	b := &Bars{Title: title, W: barWidth * max(1, n), H: barHeight}
	sums, parts := make([]int64, n), make([]int64, n)
	highest := int64(1)
	for i := range demand {
		at := i * n / len(demand)
		sums[at] += demand[i]
		parts[at] += min(limited[i], demand[i])
		highest = max(highest, sums[at])
	}
	for i := range n {
		h, lh := barHeight*float64(sums[i])/float64(highest), barHeight*float64(parts[i])/float64(highest)
		if parts[i] > 0 {
			lh = max(lh, 1.5)
		}
		if sums[i] > 0 {
			h = max(h, 1)
		}
		b.Bars = append(b.Bars, bar{X: float64(i * barWidth), Y: barHeight - h, H: h, LY: barHeight - lh, LH: lh})
	}
	return b
}
