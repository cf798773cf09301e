package overfleet

import (
	"fmt"
	"strings"
	"time"
)

// The plot has two panels, one above the other: all units admitted against time, and the units of each
// window. Sizes are in pixels.
const (
	plotWidth  = 820
	plotLeft   = 70
	plotRight  = 20
	topHeight  = 300
	lowHeight  = 160
	plotMargin = 78 // above the panels
	plotGap    = 56 // between them
	plotFoot   = 48
)

// plotColors are colours that most people can distinguish.
var plotColors = map[string]string{
	"naive": "#d55e00", credit: "#cc79a7", "exact": "#0072b2", "hybrid": "#009e73",
}

// draw returns the plot.
func draw(curves []curve, windows int) string {
	var w strings.Builder
	height := plotMargin + topHeight + plotGap + lowHeight + plotFoot
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" fill="#222">`+"\n", plotWidth, height)
	fmt.Fprintf(&w, `<title>Units admitted by 8 processes, exactly, with hybrid limits, with credit and by a naive store</title>`+"\n")
	fmt.Fprintf(&w, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, height)
	fmt.Fprintf(&w, `<text x="%d" y="22" font-size="15">%d/s over %d processes, %d requests a second; the busiest process is killed in the middle</text>`+"\n",
		plotLeft, plotCount, processes, plotDemand)
	names := map[string]string{}
	for i, n := range plotNames {
		names[n[0]] = n[1]
		x := plotLeft + i*185
		fmt.Fprintf(&w, `<rect x="%d" y="36" width="14" height="14" fill="%s"/><text x="%d" y="48">%s</text>`+"\n", x, plotColors[n[0]], x+20, n[1])
	}
	top := panel{y: plotMargin, height: topHeight, most: plotCount * float64(windows), seconds: windows}
	low := panel{y: plotMargin + topHeight + plotGap, height: lowHeight, most: plotCount, seconds: windows}
	for _, c := range curves {
		top.most = max(top.most, float64(len(c.at)))
		for _, units := range c.windows(windows) {
			low.most = max(low.most, float64(units))
		}
	}
	top.most, low.most = roundUp(top.most), roundUp(low.most*1.02)
	top.frame(&w, "units admitted since the start")
	low.frame(&w, "units of each window of a second")
	crash := float64(windows)/2 + 0.3
	for _, p := range []panel{top, low} {
		fmt.Fprintf(&w, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#888" stroke-dasharray="3 3"/>`+"\n", p.x(crash), p.y, p.x(crash), p.y+p.height)
	}
	fmt.Fprintf(&w, `<text x="%.1f" y="%d" fill="#666">killed</text>`+"\n", top.x(crash)+5, top.y+topHeight-8)
	// The limit: a staircase above, a line below.
	fmt.Fprintf(&w, `<path d="M%.1f %.1f`, top.x(0), top.up(plotCount))
	for i := 1; i < windows; i++ {
		fmt.Fprintf(&w, "H%.1fV%.1f", top.x(float64(i)), top.up(float64(plotCount*(i+1))))
	}
	fmt.Fprintf(&w, `H%.1f" fill="none" stroke="#000" stroke-dasharray="6 3"/>`+"\n", top.x(float64(windows)))
	for _, c := range curves {
		fmt.Fprintf(&w, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", top.path(c), plotColors[c.subject])
	}
	low.bars(&w, curves)
	fmt.Fprintf(&w, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#000" stroke-dasharray="6 3"/><text x="%.1f" y="%.1f">the limit</text>`+"\n",
		low.x(0), low.up(plotCount), low.x(float64(windows)), low.up(plotCount), top.x(0.08), top.up(plotCount)-6)
	fmt.Fprintf(&w, `<text x="%d" y="%d" text-anchor="middle">seconds</text>`+"\n", (plotLeft+plotWidth-plotRight)/2, height-10)
	w.WriteString("</svg>\n")
	return w.String()
}

// A panel is a part of the plot with axes of its own.
type panel struct {
	y, height int
	most      float64
	seconds   int
}

func (p panel) x(second float64) float64 {
	return plotLeft + second/float64(p.seconds)*(plotWidth-plotLeft-plotRight)
}

func (p panel) up(units float64) float64 {
	return float64(p.y+p.height) - units/p.most*float64(p.height)
}

// frame draws the axes.
func (p panel) frame(w *strings.Builder, title string) {
	bottom := p.y + p.height
	fmt.Fprintf(w, `<text x="%d" y="%d" font-size="12" fill="#666">%s</text>`+"\n", plotLeft, p.y-5, title)
	const steps = 4
	for i := range steps + 1 {
		units := p.most * float64(i) / steps
		fmt.Fprintf(w, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end" font-size="12">%.0f</text>`+"\n",
			plotLeft, p.up(units), plotWidth-plotRight, p.up(units), plotLeft-6, p.up(units)+4, units)
	}
	for s := range p.seconds + 1 {
		fmt.Fprintf(w, `<text x="%.1f" y="%d" text-anchor="middle" font-size="12">%d</text>`+"\n", p.x(float64(s)), bottom+16, s)
	}
	fmt.Fprintf(w, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#222"/>`+"\n", plotLeft, bottom, plotWidth-plotRight, bottom)
}

// path returns the path of a curve, with a point every 20 ms.
func (p panel) path(c curve) string {
	var d strings.Builder
	next := 0
	const step = 20 * time.Millisecond
	for at := time.Duration(0); at <= time.Duration(p.seconds)*time.Second; at += step {
		for next < len(c.at) && c.at[next] <= int64(at) {
			next++
		}
		letter := "L"
		if at == 0 {
			letter = "M"
		}
		fmt.Fprintf(&d, "%s%.1f %.1f", letter, p.x(at.Seconds()), p.up(float64(next)))
	}
	return d.String()
}

// bars draws the units of each window, beside each other.
func (p panel) bars(w *strings.Builder, curves []curve) {
	width := (p.x(1) - p.x(0)) * 0.8 / float64(len(curves))
	for i, c := range curves {
		for second, units := range c.windows(p.seconds) {
			x := p.x(float64(second)+0.1) + float64(i)*width
			fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
				x, p.up(float64(units)), width, float64(p.y+p.height)-p.up(float64(units)), plotColors[c.subject])
		}
	}
}

// roundUp returns the end of an axis with four equal steps: the first that is at least the given value.
func roundUp(v float64) float64 {
	step := 1.0
	for step*40 < v {
		step *= 10
	}
	for n := 4.0; ; n += 4 {
		if n*step >= v {
			return n * step
		}
	}
}
