package describe

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Limit describes what a limit lets pass, as in "100 a minute, up to 20 at once (token bucket)".
func Limit(l *sluice.Limit) string {
	switch a := l.Algorithm().(type) {
	case sluice.TokenBucket:
		text := fmt.Sprintf("%s, up to %d at once", rate(a.Rate), l.Capacity())
		if a.WarmUp > 0 {
			text += fmt.Sprintf("; after a pause, %d times slower for %s", a.ColdFactor, Duration(a.WarmUp))
		}
		if a.Debt != a.Burst {
			text += fmt.Sprintf("; may owe up to %d", a.Debt)
		}
		return text + " (token bucket)"
	case sluice.LeakyBucket:
		text := fmt.Sprintf("one at a time, %s", rate(a.Rate))
		if a.Queue > 0 {
			text += fmt.Sprintf("; a queue has room for %d more", a.Queue)
		}
		if a.Undelayed > 0 {
			text += fmt.Sprintf(", %d of them without a delay", a.Undelayed)
		}
		return text + " (leaky bucket)"
	case sluice.FixedWindow:
		return fixed(a)
	case sluice.SlidingWindow:
		return fmt.Sprintf("%d in any %s%s (sliding window)", a.Rate.Count(), period(a.Rate.Period()), attempts(a.CountDenied))
	case sluice.SlidingCounter:
		return fmt.Sprintf("about %d in any %s%s (sliding counter)", a.Rate.Count(), period(a.Rate.Period()), attempts(a.CountDenied))
	case sluice.SlidingLog:
		text := fmt.Sprintf("%d in any %s", a.Rate.Count(), period(a.Rate.Period()))
		if a.MinInterval > 0 {
			text += fmt.Sprintf(", at least %s apart", Duration(a.MinInterval))
		}
		return text + attempts(a.CountDenied) + " (sliding log)"
	case sluice.Concurrency:
		text := fmt.Sprintf("%d in flight", a.Max)
		if a.Queue > 0 {
			text += fmt.Sprintf("; a queue has room for %d more", a.Queue)
		}
		return text + fmt.Sprintf("; a lease ends after %s (concurrency)", Duration(a.TTL))
	default:
		return l.Algorithm().String()
	}
}

// attempts describes whether denied attempts count.
func attempts(counted bool) string {
	if counted {
		return "; denied attempts count too"
	}
	return ""
}

func fixed(a sluice.FixedWindow) string {
	count, too := a.Rate.Count(), attempts(a.CountDenied)
	switch {
	case a.Calendar != 0:
		return fmt.Sprintf("%d in each calendar %v in %s%s (fixed window)", count, a.Calendar, a.Zone, too)
	case a.Opened:
		return fmt.Sprintf("%d in each %s, which begins with its first request%s (fixed window)", count, period(a.Rate.Period()), too)
	}
	return fmt.Sprintf("%d in each %s of the clock%s (fixed window)", count, period(a.Rate.Period()), too)
}

// rate describes a rate, as in "100 a minute".
func rate(r sluice.Rate) string {
	switch p := period(r.Period()); p {
	case "hour":
		return fmt.Sprintf("%d an hour", r.Count())
	case "second", "minute", "day", "week":
		return fmt.Sprintf("%d a %s", r.Count(), p)
	default:
		return fmt.Sprintf("%d in %s", r.Count(), p)
	}
}

// period describes a time that follows "any" or "each".
func period(d time.Duration) string {
	const day = 24 * time.Hour
	switch d {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case day:
		return "day"
	case 7 * day:
		return "week"
	}
	if d%day == 0 {
		return fmt.Sprintf("%d days", d/day)
	}
	return Duration(d)
}

// Duration writes a time without the zeros of time.Duration: 1h, not 1h0m0s.
func Duration(d time.Duration) string {
	text := d.String()
	for _, zero := range [...]string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// bytes describes a rate of bytes, as in "1MB a second".
func bytes(r sluice.Rate) string {
	n := r.Count()
	text := strconv.FormatInt(n, 10) + "B"
	for _, u := range []struct {
		name string
		size int64
	}{{"GB", 1e9}, {"GiB", 1 << 30}, {"MB", 1e6}, {"MiB", 1 << 20}, {"kB", 1e3}, {"KiB", 1 << 10}} {
		if n%u.size == 0 {
			text = strconv.FormatInt(n/u.size, 10) + u.name
			break
		}
	}
	return strings.Replace(rate(r), strconv.FormatInt(n, 10), text, 1)
}
