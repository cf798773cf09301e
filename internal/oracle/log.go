package oracle

import "slices"

// Log is a sliding log: a list of all charges that count.
type Log struct {
	count, length, interval int64
	countDenied             bool

	entries []entry // in order of time
}

// mostLogged is the highest cost of an entry.
const mostLogged = 1 << 17

type entry struct{ cost, at int64 }

// NewLog returns a sliding log of count units per length, whose requests are at least an interval
// apart.
func NewLog(count, length, interval int64, countDenied bool) Log {
	return Log{count: count, length: length, interval: interval, countDenied: countDenied}
}

// at returns the entries that count at a time, the time from which to count, and whether the clock was
// set back.
func (l Log) at(now int64) ([]entry, int64, bool) {
	if n := len(l.entries); n > 0 && now < l.entries[n-1].at {
		last := l.entries[n-1].at
		if last-now > l.length {
			return []entry{{max(units(l.entries), l.count), now}}, now, true
		}
		now = last
	}
	i := 0
	for i < len(l.entries) && l.entries[i].at <= now-l.length {
		i++
	}
	return l.entries[i:], now, false
}

func units(entries []entry) (sum int64) {
	for _, e := range entries {
		sum += e.cost
	}
	return sum
}

// Allows implements State.
func (l Log) Allows(r Request) (bool, int64, Reason) {
	counted, at, _ := l.at(r.Now)
	used := units(counted)
	switch {
	case r.Cost == 0 && used <= l.count:
		return true, 0, None
	case r.Cost == 0:
		return false, 0, Limited
	case r.beyond(l.count, mostLogged):
		return false, 0, Never
	case used > l.count-r.Floor-r.need(l.count, mostLogged):
		return false, 0, Limited
	case len(counted) > 0 && at-counted[len(counted)-1].at < l.interval:
		return false, 0, TooSoon
	}
	return true, 0, None
}

// Take implements State.
func (l Log) Take(r Request, allowed bool) (State, Charge) {
	counted, at, setBack := l.at(r.Now)
	if setBack {
		l.entries = counted
	}
	if r.Cost > 0 && (allowed || r.Debit || l.countDenied && !r.beyond(l.count, mostLogged)) {
		if !allowed {
			r.Cost = min(r.Cost, l.count+1) // more units make no difference
		}
		l.entries = append(slices.Clone(counted), entry{r.Cost, at})
	}
	return l, Charge{Cost: r.Cost, At: at}
}

// Remaining implements State.
func (l Log) Remaining(r Request) int64 {
	if r.Floor > l.count {
		return 0
	}
	counted, _, _ := l.at(r.Now)
	return max(0, l.count-r.Floor-units(counted))
}

// Fresh implements State.
func (l Log) Fresh(now int64) bool {
	counted, _, _ := l.at(now)
	return len(counted) == 0
}

// Settle implements State.
func (l Log) Settle(now int64, c Charge, actual int64) State {
	counted, at, setBack := l.at(now)
	if setBack || c.At <= at-l.length {
		return l
	}
	if c.At == Newest {
		old, units := l.entries[:len(l.entries)-len(counted)], c.Cost-min(actual, c.Cost)
		counted = slices.Clone(counted)
		for n := len(counted); n > 0 && units > 0; n-- {
			give := min(units, counted[n-1].cost)
			units -= give
			if counted[n-1].cost -= give; counted[n-1].cost == 0 {
				counted = counted[:n-1]
			}
		}
		l.entries = append(slices.Clone(old), counted...)
		return l
	}
	if i := slices.Index(l.entries, entry{c.Cost, c.At}); i >= 0 && c.Cost > 0 {
		l.entries = slices.Clone(l.entries)
		l.entries[i].cost = min(actual, mostLogged)
		if actual == 0 {
			l.entries = slices.Delete(l.entries, i, i+1)
		}
		return l
	}
	if actual <= c.Cost || c.At-at > l.length {
		return l
	}
	// The charge has no entry. The further cost adds to the next entry, or gets an entry of its own.
	counted = slices.Clone(counted)
	more := entry{min(actual-c.Cost, mostLogged), c.At}
	if i := slices.IndexFunc(counted, func(e entry) bool { return e.at >= c.At }); i >= 0 {
		counted[i].cost = min(counted[i].cost+more.cost, mostLogged)
	} else {
		counted = append(counted, more)
	}
	l.entries = counted
	return l
}

// Cancel implements State.
func (l Log) Cancel(now int64, c Charge) State {
	if c.Cost == 0 || now > c.At {
		return l
	}
	return l.Settle(now, c, 0)
}

// Equal implements State.
func (l Log) Equal(s State) bool { return slices.Equal(l.entries, s.(Log).entries) }
