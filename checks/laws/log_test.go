package laws

import (
	"slices"

	"github.com/sluicehq/sluice"
)

// entry is one request of a log.
type entry struct{ at, units int64 }

// requests is a sliding log.
type requests struct {
	count, length, interval int64
	countDenied             bool
	entries                 []entry // in order of time
}

func newLog(l sluice.SlidingLog) oracle {
	return requests{
		count: l.Rate.Count(), length: l.Rate.Period().Microseconds(),
		interval: l.MinInterval.Microseconds(), countDenied: l.CountDenied,
	}
}

// last returns the time of the latest entry.
func (r requests) last() int64 {
	if len(r.entries) == 0 {
		return -1
	}
	return r.entries[len(r.entries)-1].at
}

// as returns the entries that count at a time.
func (r requests) as(now int64) requests {
	now = max(now, r.last())
	i := 0
	for i < len(r.entries) && r.entries[i].at <= now-r.length {
		i++
	}
	r.entries = slices.Clone(r.entries[i:])
	return r
}

func (r requests) used() (sum int64) {
	for _, e := range r.entries {
		sum += e.units
	}
	return sum
}

// falls returns when no more than room units count.
func (r requests) falls(room int64) int64 {
	used := r.used()
	for _, e := range r.entries {
		if used -= e.units; used <= room {
			return e.at + r.length
		}
	}
	panic("more than no unit is left")
}

// reset returns when no entry counts.
func (r requests) reset(now int64) int64 {
	if len(r.entries) == 0 {
		return 0
	}
	return r.last() + r.length - now
}

func (r requests) decide(a ask) (sluice.Decision, charge, oracle) {
	kept := r
	r = r.as(a.now)
	at, used, reset := max(a.now, r.last()), r.used(), r.reset(a.now)
	remaining := r.count - a.floor - used
	c := charge{ask: a, at: at}
	switch {
	case a.cost == 0 && used > r.count && !r.countDenied:
		return denied(sluice.ReasonLimited, 0, r.falls(r.count)-a.now, reset), c, kept
	case a.cost == 0:
		return allowed(remaining, 0, reset), c, kept
	case a.cost > r.count-a.floor:
		return never(remaining, reset), c, kept
	}
	reason := sluice.ReasonNone
	if a.cost > remaining {
		reason = sluice.ReasonLimited
	} else if len(r.entries) > 0 && at-r.last() < r.interval {
		reason = sluice.ReasonTooSoon
	}
	logged := r
	logged.entries = append(slices.Clone(r.entries), entry{at, a.cost})
	if reason == sluice.ReasonNone {
		return allowed(remaining-a.cost, 0, logged.reset(a.now)), c, logged
	}
	next := kept
	if r.countDenied {
		r, next = logged, logged
		remaining -= a.cost
	}
	retry := r.last() + r.interval
	if room := r.count - a.floor - a.cost; r.used() > room {
		retry = max(retry, r.falls(room))
	}
	return denied(reason, remaining, retry-a.now, r.reset(a.now)), c, next
}

func (r requests) cancel(now int64, c charge) oracle {
	if now > c.at {
		return r
	}
	return r.settle(now, c, 0)
}

func (r requests) settle(now int64, c charge, actual int64) oracle {
	next := r // with what counts no more: it does again when the clock goes back
	next.entries = slices.Clone(r.entries)
	for i, e := range next.entries {
		if e == (entry{c.at, c.cost}) && e.at > max(now, r.last())-r.length {
			next.entries[i].units = actual
			if actual == 0 {
				next.entries = slices.Delete(next.entries, i, i+1)
			}
			return next
		}
	}
	if actual <= c.cost || c.at <= max(now, r.last())-r.length {
		return r
	}
	// Its entry is forgotten: what it cost besides has one of its own, or adds to the next.
	for i := range next.entries {
		if next.entries[i].at >= c.at {
			next.entries[i].units += actual - c.cost
			return next
		}
	}
	next.entries = append(next.entries, entry{c.at, actual - c.cost})
	return next
}

func (r requests) fresh(now int64) bool { return now >= r.last()+r.length || len(r.entries) == 0 }

func (r requests) same(o oracle) bool { return slices.Equal(r.entries, o.(requests).entries) }
