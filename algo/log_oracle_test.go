package algo_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/sluicehq/sluice/algo"
)

// logOracle is a list of all that was taken.
type logOracle struct {
	count, length, least int64
	countDenied          bool

	entries []windowCharge // in order of time
	charges map[int]windowCharge
}

func (o *logOracle) clone() oracle {
	c := *o
	c.entries, c.charges = slices.Clone(o.entries), maps.Clone(o.charges)
	return &c
}

// now returns the entries that count, the time to reckon from, and whether the
// clock was set back.
func (o *logOracle) now(now int64) ([]windowCharge, int64, bool) {
	if n := len(o.entries); n > 0 && now < o.entries[n-1].at {
		last := o.entries[n-1].at
		if last-now > o.length {
			return []windowCharge{{max(units(o.entries), o.count), now}}, now, true
		}
		now = last
	}
	i := 0
	for i < len(o.entries) && o.entries[i].at <= now-o.length {
		i++
	}
	return o.entries[i:], now, false
}

func units(entries []windowCharge) (n int64) {
	for _, e := range entries {
		n += e.cost
	}
	return n
}

func (o *logOracle) ask(a algo.Request) (bool, int64, algo.Reason) {
	counted, at, _ := o.now(a.Now)
	used := units(counted)
	switch {
	case a.Cost == 0 && (used <= o.count || o.countDenied):
		return true, 0, algo.None
	case a.Cost == 0:
		return false, 0, algo.Limited
	case a.Cost > o.count-a.Floor:
		return false, 0, algo.Never
	case used > o.count-a.Floor-a.Cost:
		return false, 0, algo.Limited
	case len(counted) > 0 && at-counted[len(counted)-1].at < o.least:
		return false, 0, algo.TooSoon
	}
	return true, 0, algo.None
}

func (o *logOracle) commit(a algo.Request, allowed bool, id int) {
	counted, at, setBack := o.now(a.Now)
	if setBack {
		o.entries = counted
	}
	if allowed {
		o.charges[id] = windowCharge{a.Cost, at}
	}
	if a.Cost > 0 && (allowed || o.countDenied && !beyond(a, o.count)) {
		o.entries = append(slices.Clone(counted), windowCharge{a.Cost, at})
	}
}

func (o *logOracle) remaining(a algo.Request) int64 {
	if a.Floor > o.count {
		return 0
	}
	counted, _, _ := o.now(a.Now)
	return max(0, o.count-a.Floor-units(counted))
}

func (o *logOracle) fresh(now int64) bool {
	counted, _, _ := o.now(now)
	return len(counted) == 0
}

func (o *logOracle) settle(now int64, id int, actual int64) {
	c := o.charges[id]
	counted, at, setBack := o.now(now)
	if setBack || c.at <= at-o.length {
		return
	}
	if i := slices.Index(o.entries, c); i >= 0 && c.cost > 0 {
		o.entries[i].cost = actual
		if actual == 0 {
			o.entries = slices.Delete(o.entries, i, i+1)
		}
		return
	}
	counted = slices.Clone(counted)
	if actual <= c.cost || c.at-at > o.length {
		return
	}
	more := windowCharge{actual - c.cost, c.at}
	i := slices.IndexFunc(counted, func(e windowCharge) bool { return e.at >= c.at })
	if i < 0 {
		counted = append(counted, more)
	} else {
		counted[i].cost += more.cost
	}
	o.entries = counted
}

func (o *logOracle) cancel(now int64, id int) {
	if now <= o.charges[id].at {
		o.settle(now, id, 0)
	}
}

func slidingLog(c *chooser) (algo.Params, oracle, questions) {
	count, period := rateNumbers(c)
	count = min(count, 1+c.below(200))
	least := c.one(0, 0, c.below(period+1), min(period, period/count))
	o := &logOracle{
		count: count, length: period, least: least, countDenied: c.oneIn(2),
		charges: map[int]windowCharge{},
	}
	p := algo.Params{
		Kind: algo.KindSlidingLog, Capacity: count,
		Log: algo.SlidingLog{Count: count, Length: period, MinInterval: least, CountDenied: o.countDenied},
	}
	return p, o, questions{
		pace: pace{max(1, period/count), period}, capacity: count,
		// A log that counts denied attempts keeps no more of them than decide.
		floors: true, waits: true, ends: !o.countDenied, back: 5 * period,
	}
}

func TestSlidingLogEqualsOracle(t *testing.T) {
	law(t, 300, func(t *testing.T, c *chooser) { agree(t, c, slidingLog) })
}

func FuzzSlidingLog(f *testing.F) { fuzz(f, slidingLog) }
