package overredis

import (
	"fmt"
	"math"

	"github.com/sluicehq/sluice/bench/figures"
)

// judge compares the results with every bar.
func judge(r figures.Results) []figures.Bar {
	bars := make([]figures.Bar, 0, 9)
	for _, n := range full.callers {
		if n >= barCallers {
			bars = append(bars, often(r, n))
			continue
		}
		bars = append(bars, speed(r, fmt.Sprintf("%d callers, rueidis: ≥ 0.9 × the minimal script's decisions/s", n), cell("keys", n), sluiceName, minimalName, 0.9))
	}
	at := cell("keys", barCallers)
	return append(
		bars,
		speed(r, fmt.Sprintf("%d callers, rueidis: ≥ 1.8 × redis_rate", barCallers), at, sluiceName, redisRateName, 1.8),
		noSlower(r),
		cost(r, fmt.Sprintf("%d callers: ≤ 1.15 × the minimal script's time in the server", barCallers), at, sluiceName, minimalName, 1.15),
		cost(r, fmt.Sprintf("%d callers, 4 limits at once: ≤ 1.5 × the time of MGET + 4 SET PX in the server", barCallers), cell("batch", barCallers), sluiceBatchName, floorBatchName, 1.5),
		memory(r),
	)
}

// speed holds if one subject decides at least factor × as often as another.
func speed(r figures.Results, promise, metric, subject, over string, factor float64) figures.Bar {
	ratio, ok := r.Ratio(metric, subject, over)
	if !ok {
		return figures.Bar{Promise: promise}
	}
	return figures.Bar{
		Promise:  promise,
		Found:    fmt.Sprintf("%s/s : %s/s = %s", thousands(r[metric][subject].Median), thousands(r[metric][over].Median), ratio.Text(2)),
		Measured: true, Holds: ratio.Median >= factor,
	}
}

// often holds if ours decides at least 0.9 × as often as the minimal script in nine of ten rounds. It
// also reports the latencies that 99 of 100 calls stayed below.
func often(r figures.Results, callers int) figures.Bar {
	metric := cell("keys", callers)
	b := speed(r, fmt.Sprintf("%d callers, rueidis: ≥ 0.9 × the minimal script's decisions/s, in nine of ten rounds", callers), metric, sluiceName, minimalName, 0.9)
	ratio, ok := r.Ratio(metric, sluiceName, minimalName)
	if !ok {
		return b
	}
	n, rounds := ratio.AtLeast(0.9)
	b.Holds = 10*n >= 9*rounds
	b.Found += fmt.Sprintf("; in %d of %d rounds", n, rounds)
	if p99, ok := r.Ratio(metricOf(metric, metricP99), sluiceName, minimalName); ok {
		b.Found += fmt.Sprintf("; p99 %s ×", p99.Text(2))
	}
	return b
}

// cost holds if a decision of one subject takes at most factor × the time in scripts of a decision of
// another.
func cost(r figures.Results, promise, cell, subject, over string, factor float64) figures.Bar {
	bar := r.AtMost(promise, metricOf(cell, metricScript), subject, factor, over, "%.2f µs", 2)
	if whole, ok := r.Ratio(metricOf(cell, metricServer), subject, over); ok && bar.Measured {
		bar.Found += fmt.Sprintf("; the whole process %s", whole.Text(2))
	}
	return bar
}

// noSlower holds if ours through go-redis is not slower than redis_rate with any number of callers. It
// reports the worst ratio.
func noSlower(r figures.Results) figures.Bar {
	bar := figures.Bar{Promise: "go-redis: not slower than redis_rate, with 1 to 256 callers"}
	worst := 0.0
	for _, n := range full.callers {
		metric := cell("keys", n)
		ratio, ok := r.Ratio(metric, sluiceGoName, redisRateName)
		if !ok || bar.Measured && ratio.Median >= worst {
			continue
		}
		worst = ratio.Median
		bar.Measured, bar.Holds = true, worst >= 1
		bar.Found = fmt.Sprintf("%d callers: %s/s : %s/s = %s", n,
			thousands(r[metric][sluiceGoName].Median), thousands(r[metric][redisRateName].Median), ratio.Text(2))
	}
	return bar
}

// memory holds if ours takes at most 32 bytes more, rounded: the server's bookkeeping adds fractions.
func memory(r figures.Results) figures.Bar {
	bar := figures.Bar{Promise: "bytes per key in the server: ≤ the minimal script's + 32"}
	us, ok1 := r.Median(metricUsed, sluiceName)
	least, ok2 := r.Median(metricUsed, minimalName)
	if ok1 && ok2 {
		bar.Measured, bar.Holds = true, math.Round(us-least) <= 32
		bar.Found = fmt.Sprintf("%.1f B : %.1f B = + %.1f", us, least, us-least)
	}
	return bar
}

// thousands returns a number of decisions as text.
func thousands(perSecond float64) string { return fmt.Sprintf("%.1fk", perSecond/1000) }
