package linearizable

import "github.com/sluicehq/sluice"

// entry is one request of a log.
type entry struct{ at, units int64 }

// requests is a sliding log: its entries in order of time, those of one time in
// order of size, so that equal logs are ==.
type requests struct {
	noLease
	now     int64
	len     int
	entries [count]entry
}

// with returns the log with one more entry.
func (r requests) with(e entry) requests {
	i := r.len
	for ; i > 0 && (r.entries[i-1].at > e.at || r.entries[i-1].at == e.at && r.entries[i-1].units > e.units); i-- {
		r.entries[i] = r.entries[i-1]
	}
	r.entries[i] = e
	r.len++
	return r
}

// without returns the log without its entry i.
func (r requests) without(i int) requests {
	copy(r.entries[i:r.len], r.entries[i+1:r.len])
	r.len--
	r.entries[r.len] = entry{}
	return r
}

func (r requests) advance(now int64) state {
	r.now = now
	for r.len > 0 && r.entries[0].at <= now-length {
		r = r.without(0)
	}
	return r
}

func (r requests) used() (sum int64) {
	for _, e := range r.entries {
		sum += e.units
	}
	return sum
}

// falls returns the time until no more than room units count.
func (r requests) falls(room int64) int64 {
	used := r.used()
	if used <= room {
		return 0
	}
	for _, e := range r.entries[:r.len] {
		if used -= e.units; used <= room {
			return e.at + length - r.now
		}
	}
	panic("more than no unit is left")
}

// reset returns the time until no entry counts.
func (r requests) reset() int64 {
	if r.len == 0 {
		return 0
	}
	return r.entries[r.len-1].at + length - r.now
}

func (r requests) decide(a ask) (sluice.Decision, state) {
	remaining := count - a.floor - r.used()
	switch {
	case a.cost == 0 && r.used() > count:
		return limited(0, r.falls(count), r.reset()), r
	case a.cost == 0:
		return allowed(remaining, 0, r.reset()), r
	case a.cost > count-a.floor:
		return never(remaining, r.reset()), r
	case a.cost > remaining:
		return limited(remaining, r.falls(count-a.floor-a.cost), r.reset()), r
	}
	return allowed(remaining-a.cost, 0, length), r.with(entry{r.now, a.cost})
}

func (r requests) cancel(c charge) state {
	if r.now > c.at {
		return r
	}
	return r.settle(c, 0)
}

func (r requests) settle(c charge, actual int64) state {
	for i, e := range r.entries[:r.len] {
		if e == (entry{c.at, c.cost}) {
			r = r.without(i)
			if actual > 0 {
				r = r.with(entry{c.at, actual})
			}
			return r
		}
	}
	return r
}
