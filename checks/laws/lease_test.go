package laws

import (
	"maps"

	"github.com/sluicehq/sluice"
)

// lease is units in flight.
type lease struct{ expires, units int64 }

// leases is a concurrency limit.
type leases struct {
	most, queue, ttl int64
	held             map[uint64]lease
}

func newLeases(c sluice.Concurrency) oracle {
	return leases{most: c.Max, queue: c.Queue, ttl: c.TTL.Microseconds()}
}

func (l leases) as(now int64) leases {
	old := l.held
	l.held = map[uint64]lease{}
	for m, h := range old {
		if h.expires > now {
			l.held[m] = h
		}
	}
	return l
}

// used returns the units in flight, and the time until the last lease expires.
func (l leases) used(now int64) (sum, reset int64) {
	for _, h := range l.held {
		sum += h.units
		reset = max(reset, h.expires-now)
	}
	return sum, reset
}

// falls returns the time until no more than room units are in flight.
func (l leases) falls(now, room int64) int64 {
	for t := now; ; {
		after := l.as(t)
		used, _ := after.used(t)
		if used <= room {
			return t - now
		}
		t += l.ttl
		for _, h := range after.held {
			t = min(t, h.expires)
		}
	}
}

func (l leases) decide(a ask) (sluice.Decision, charge, oracle) {
	kept := l
	l = l.as(a.now)
	used, reset := l.used(a.now)
	limit := l.most + l.queue - a.floor
	if a.wait < 0 {
		limit = l.most - a.floor
	}
	c := charge{ask: a, at: a.now}
	if a.cost == 0 {
		return allowed(limit-used, 0, reset), c, kept
	}
	if h, ok := l.held[a.member]; ok {
		l.held[a.member] = lease{max(h.expires, a.now+l.ttl), h.units}
		return allowed(limit-used, 0, max(reset, l.ttl)), c, l
	}
	switch {
	case a.cost > limit:
		return never(limit-used, reset), c, kept
	case used > limit-a.cost:
		return denied(sluice.ReasonLimited, limit-used, l.falls(a.now, limit-a.cost), reset), c, kept
	}
	l.held[a.member] = lease{a.now + l.ttl, a.cost}
	return allowed(limit-used-a.cost, 0, max(reset, l.ttl)), c, l
}

func (l leases) cancel(now int64, c charge) oracle {
	l = l.as(now)
	if c.cost > 0 {
		delete(l.held, c.member)
	}
	return l
}

func (l leases) settle(int64, charge, int64) oracle { panic("a lease is released, not settled") }

func (l leases) fresh(now int64) bool { return len(l.as(now).held) == 0 }

func (l leases) same(o oracle) bool { return maps.Equal(l.held, o.(leases).held) }
