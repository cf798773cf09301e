package oracle

import "slices"

// Leases is a concurrency limit: a list of leases, oldest first.
type Leases struct {
	most, queue, ttl, latency int64

	held []lease
	last int64
	// adapted is the latency that releases have reported. adaptedAt is the time of the last report, or
	// zero. A report counts for one TTL.
	adapted, adaptedAt int64
}

type lease struct {
	member      uint64
	until, cost int64
}

// NewLeases returns a concurrency limit of most units; queue more units may wait. At first, a turn in the
// queue takes latency. A release that reports a latency moves this time half of the way.
func NewLeases(most, queue, ttl, latency int64) Leases {
	return Leases{most: most, queue: queue, ttl: ttl, latency: latency}
}

// at returns the leases that last at a time.
func (l Leases) at(now int64) Leases {
	back := l.last - now
	setBack := back > l.ttl
	var held []lease
	for _, h := range l.held {
		if setBack {
			h.until -= back
		}
		if h.until > now {
			held = append(held, h)
		}
	}
	l.held = held
	if setBack {
		l.last, l.adaptedAt = now, max(0, l.adaptedAt-back)
	}
	return l
}

// adapts reports whether the latency that releases have reported counts at a time.
func (l Leases) adapts(now int64) bool { return l.adaptedAt > 0 && now < l.adaptedAt+l.ttl }

// turn returns how long a turn in the queue takes at a time.
func (l Leases) turn(now int64) int64 {
	if l.adapts(now) {
		return l.adapted
	}
	return l.latency
}

func (l Leases) used() (sum int64) {
	for _, h := range l.held {
		sum += h.cost
	}
	return sum
}

// delay returns the delay of a request. units counts its own units and all units before them.
func (l Leases) delay(now, units int64) int64 {
	if units <= l.most {
		return 0
	}
	return l.turn(now) * ((units - 1) / l.most)
}

// fits reports whether a request passes. units counts its own units and all units before them.
func (l Leases) fits(r Request, units int64) bool {
	most := l.most + l.queue
	if r.MaxWait < 0 {
		most = l.most
	}
	return r.Floor <= most && units <= most-r.Floor && (r.MaxWait <= 0 || l.delay(r.Now, units) <= r.MaxWait)
}

// Allows implements State.
func (l Leases) Allows(r Request) (bool, int64, Reason) {
	l = l.at(r.Now)
	units, ahead := int64(0), int64(0)
	for _, h := range l.held {
		units += h.cost
		if h.member == r.Member {
			ahead = units
		}
	}
	switch {
	case r.Cost == 0:
		return true, 0, None
	case ahead > 0:
		return true, l.delay(r.Now, ahead), None
	case r.Cost > l.most+l.queue || !l.fits(r, r.Cost):
		return false, 0, Never
	case !l.fits(r, units+r.Cost):
		return false, 0, Limited
	}
	return true, l.delay(r.Now, units+r.Cost), None
}

// Take implements State.
func (l Leases) Take(r Request, allowed bool) (State, Charge) {
	c := Charge{Cost: r.Cost, At: r.Now, Member: r.Member}
	if !allowed || r.Cost == 0 {
		if l.last-r.Now > l.ttl {
			l = l.shifted(r.Now)
		}
		return l, c
	}
	l = l.at(r.Now)
	l.last = max(l.last, r.Now)
	until := r.Now + l.ttl
	if i := l.find(r.Member); i >= 0 {
		l.held[i].until = max(l.held[i].until, until)
	} else {
		l.held = append(l.held, lease{r.Member, until, r.Cost})
	}
	return l, c
}

// shifted returns the leases after the clock was set back. Each lease keeps the time that it had left.
func (l Leases) shifted(now int64) Leases {
	back := l.last - now
	l.held, l.last, l.adaptedAt = slices.Clone(l.held), now, max(0, l.adaptedAt-back)
	for i := range l.held {
		l.held[i].until -= back
	}
	return l
}

// find returns the index of a member's lease, or -1.
func (l Leases) find(member uint64) int {
	return slices.IndexFunc(l.held, func(h lease) bool { return h.member == member })
}

// Remaining implements State.
func (l Leases) Remaining(r Request) int64 {
	l = l.at(r.Now)
	return largest(l.most+l.queue, func(cost int64) bool { return l.fits(r, l.used()+cost) })
}

// Fresh implements State.
func (l Leases) Fresh(now int64) bool {
	l = l.at(now)
	return len(l.held) == 0 && !l.adapts(now)
}

// Settle implements State: a lease cannot be settled.
func (l Leases) Settle(int64, Charge, int64) State { return l }

// Cancel implements State: it ends the lease.
func (l Leases) Cancel(now int64, c Charge) State {
	if c.Cost == 0 {
		return l
	}
	_, l = l.end(now, c.Member)
	return l
}

func (l Leases) end(now int64, member uint64) (bool, Leases) {
	l = l.at(now)
	i := l.find(member)
	if i >= 0 {
		l.held = slices.Delete(l.held, i, i+1)
	}
	return i >= 0, l
}

// Release ends the lease of a member, which was held for latency. It reports whether the lease was held.
func (l Leases) Release(now int64, member uint64, latency int64) (bool, Leases) {
	held, l := l.end(now, member)
	if held && l.latency > 0 {
		l.adapted, l.adaptedAt, l.last = (l.turn(now)+latency)/2, max(now, 1), max(l.last, now)
	}
	return held, l
}

// Equal implements State.
func (l Leases) Equal(s State) bool {
	o := s.(Leases)
	return l.last == o.last && l.adapted == o.adapted && l.adaptedAt == o.adaptedAt && slices.Equal(l.held, o.held)
}
