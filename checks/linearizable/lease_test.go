package linearizable

import "github.com/sluicehq/sluice"

// lease is units in flight.
type lease struct {
	member  uint64
	expires int64
	units   int64
}

// leases is a concurrency limit: its leases in order of their members.
type leases struct {
	now  int64
	len  int
	held [most + inQueue]lease
}

const (
	most    = 4
	inQueue = 2
	ttl     = 8 * unit
)

// with returns the leases and another one.
func (l leases) with(n lease) leases {
	i := l.len
	for ; i > 0 && l.held[i-1].member > n.member; i-- {
		l.held[i] = l.held[i-1]
	}
	l.held[i] = n
	l.len++
	return l
}

// without returns the leases but i.
func (l leases) without(i int) leases {
	copy(l.held[i:l.len], l.held[i+1:l.len])
	l.len--
	l.held[l.len] = lease{}
	return l
}

func (l leases) advance(now int64) state {
	l.now = now
	for i := l.len - 1; i >= 0; i-- {
		if l.held[i].expires <= now {
			l = l.without(i)
		}
	}
	return l
}

// find returns the place of a member's lease, or -1.
func (l leases) find(member uint64) int {
	for i, h := range l.held[:l.len] {
		if h.member == member {
			return i
		}
	}
	return -1
}

func (l leases) used() (sum int64) {
	for _, h := range l.held {
		sum += h.units
	}
	return sum
}

// reset returns the time until the last lease expires.
func (l leases) reset() (longest int64) {
	for _, h := range l.held[:l.len] {
		longest = max(longest, h.expires-l.now)
	}
	return longest
}

// falls returns the time until so many leases expire that room units are in flight.
func (l leases) falls(room int64) int64 {
	after := l
	for after.used() > room {
		next := l.now + ttl
		for _, h := range after.held[:after.len] {
			next = min(next, h.expires)
		}
		after = after.advance(next).(leases)
	}
	return after.now - l.now
}

func (l leases) decide(a ask) (sluice.Decision, state) {
	limit := most + inQueue - a.floor
	remaining := limit - l.used()
	if a.cost == 0 {
		return allowed(remaining, 0, l.reset()), l
	}
	if i := l.find(a.member); i >= 0 {
		next := l
		next.held[i].expires = l.now + ttl
		return allowed(remaining, 0, ttl), next
	}
	switch {
	case a.cost > limit:
		return never(remaining, l.reset()), l
	case a.cost > remaining:
		return limited(remaining, l.falls(limit-a.cost), l.reset()), l
	}
	return allowed(remaining-a.cost, 0, ttl), l.with(lease{a.member, l.now + ttl, a.cost})
}

// cancel of a lease releases it.
func (l leases) cancel(c charge) state {
	if c.cost == 0 {
		return l
	}
	_, next := l.release(c.member)
	return next
}

func (leases) settle(charge, int64) state { panic("a lease is released, not settled") }

func (l leases) release(member uint64) (bool, state) {
	if i := l.find(member); i >= 0 {
		return true, l.without(i)
	}
	return false, l
}
