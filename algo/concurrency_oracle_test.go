package algo_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/sluicehq/sluice/algo"
)

// concOracle is a list of leases.
type concOracle struct {
	max, queue, ttl, latency int64

	leases  []leaseOf
	last    int64
	members map[int]uint64
}

type leaseOf struct {
	member      uint64
	until, cost int64
}

func (o *concOracle) clone() oracle {
	c := *o
	c.leases, c.members = slices.Clone(o.leases), maps.Clone(o.members)
	return &c
}

// follow moves the leases to the time of a clock that was set back.
func (o *concOracle) follow(now int64) {
	if back := o.last - now; back > o.ttl {
		o.last = now
		for i := range o.leases {
			o.leases[i].until -= back
		}
	}
}

// now returns the leases that last.
func (o *concOracle) now(now int64) []leaseOf {
	c := o.clone().(*concOracle)
	c.follow(now)
	return slices.DeleteFunc(c.leases, func(l leaseOf) bool { return l.until <= now })
}

// delay is what a request is told that makes it so many units.
func (o *concOracle) delay(units int64) int64 {
	if units <= o.max {
		return 0
	}
	return o.latency * ((units - 1) / o.max)
}

func (o *concOracle) passes(a algo.Request, units int64) bool {
	most := o.max + o.queue
	if a.MaxWait < 0 {
		most = o.max
	}
	return a.Floor <= most && units <= most-a.Floor && (a.MaxWait <= 0 || o.delay(units) <= a.MaxWait)
}

func (o *concOracle) ask(a algo.Request) (bool, int64, algo.Reason) {
	units, ahead := int64(0), int64(0)
	for _, l := range o.now(a.Now) {
		units += l.cost
		if l.member == a.Member {
			ahead = units
		}
	}
	switch {
	case a.Cost == 0:
		return true, 0, algo.None
	case ahead > 0:
		return true, o.delay(ahead), algo.None
	case a.Cost > o.max+o.queue || !o.passes(a, a.Cost):
		return false, 0, algo.Never
	case !o.passes(a, units+a.Cost):
		return false, 0, algo.Limited
	}
	return true, o.delay(units + a.Cost), algo.None
}

func (o *concOracle) commit(a algo.Request, allowed bool, id int) {
	o.follow(a.Now)
	if !allowed || a.Cost == 0 {
		return
	}
	o.leases = o.now(a.Now)
	o.last = max(o.last, a.Now)
	o.members[id] = a.Member
	until := a.Now + o.ttl
	for i := range o.leases {
		if o.leases[i].member == a.Member {
			o.leases[i].until = max(o.leases[i].until, until)
			return
		}
	}
	o.leases = append(o.leases, leaseOf{a.Member, until, a.Cost})
}

func (o *concOracle) remaining(a algo.Request) int64 {
	units := int64(0)
	for _, l := range o.now(a.Now) {
		units += l.cost
	}
	return largest(o.max+o.queue, func(cost int64) bool { return o.passes(a, units+cost) })
}

func (o *concOracle) fresh(now int64) bool { return len(o.now(now)) == 0 }

func (o *concOracle) settle(int64, int, int64) {}

func (o *concOracle) cancel(now int64, id int) {
	member, ok := o.members[id]
	if !ok {
		return // what cost nothing holds no lease
	}
	o.follow(now)
	o.leases = slices.DeleteFunc(o.now(now), func(l leaseOf) bool { return l.member == member })
}

func concurrency(c *chooser) (algo.Params, oracle, questions) {
	o := &concOracle{
		max: 1 + c.below(8), queue: c.below(8), ttl: 1 + c.below(100), latency: c.below(30),
		members: map[int]uint64{},
	}
	p := algo.Params{
		Kind: algo.KindConcurrency, Capacity: o.max + o.queue,
		Conc: algo.Concurrency{Max: o.max, Queue: o.queue, TTL: o.ttl, Latency: o.latency},
	}
	return p, o, questions{
		pace: pace{max(1, o.ttl/4), o.ttl}, capacity: o.max + o.queue,
		floors: true, waits: true, ends: true, back: 5 * o.ttl, members: 12,
	}
}

func TestConcurrencyEqualsOracle(t *testing.T) {
	law(t, 300, func(t *testing.T, c *chooser) { agree(t, c, concurrency) })
}

func FuzzConcurrency(f *testing.F) { fuzz(f, concurrency) }
