package algo

// Concurrency bounds how many units are in flight at once. Up to Max units run, and up to Queue
// more units wait for running units to end. Each request holds a lease until it is released, or
// until TTL after it was granted or renewed. If the clock is set back by more than a TTL, leases
// keep the time that they had left at the latest charge.
//
// A request that must wait gets an estimate of its delay, as in limit.conn of
// lua-resty-limit-traffic: Latency · ⌊(units − 1)/Max⌋. The latency adapts to what releases
// report; an adapted latency is kept for a TTL.
//
// The state has a header of four words: the number of leases, the time of the latest charge, the
// adapted latency, and its time. Each lease follows, in order of arrival, with three words:
// member, expiry, units.
type Concurrency struct {
	Max, Queue int64
	TTL        int64 // microseconds
	Latency    int64 // microseconds
}

// MaxConcurrency bounds Max + Queue: the state holds an entry for each lease.
const MaxConcurrency = 1 << 16

const (
	concLeases = iota
	concAt
	concLatency
	concLatencyAt
	concFirst
)

const (
	leaseMember = iota
	leaseExpiry
	leaseUnits
	leaseWords
)

// Words returns the size of a Concurrency's state that has room for leases.
func (c *Concurrency) Words(leases int) int { return concFirst + leaseWords*leases }

// Leases returns the most leases for which a state ever needs room.
func (c *Concurrency) Leases() int { return int(c.Max + c.Queue) }

func lease(w []uint64, i int) []uint64 { return w[concFirst+leaseWords*i:][:leaseWords] }

// Full reports whether the state has no room for another lease at this time.
func (c *Concurrency) Full(w []uint64, now int64) bool {
	n := int(w[concLeases])
	if c.Words(n+1) <= len(w) {
		return false
	}
	now += c.jump(w, now)
	for i := range n {
		if int64(lease(w, i)[leaseExpiry]) <= now {
			return false
		}
	}
	return true
}

// Move copies a state into a larger slice of zeros.
func (c *Concurrency) Move(dst, src []uint64) { copy(dst, src[:c.Words(int(src[concLeases]))]) }

// Latest returns the time of the latest charge.
func (c *Concurrency) Latest(w []uint64) int64 { return int64(w[concAt]) }

// jump returns by how much the clock was set back since the latest charge. It returns zero for a
// difference of up to a TTL.
func (c *Concurrency) jump(w []uint64, now int64) int64 {
	if back := int64(w[concAt]) - now; back > c.TTL {
		return back
	}
	return 0
}

// follow moves the state to the time of a clock that was set back.
func (c *Concurrency) follow(w []uint64, now int64) {
	jump := uint64(c.jump(w, now))
	if jump == 0 {
		return
	}
	w[concAt] = uint64(now)
	for i := range int(w[concLeases]) {
		lease(w, i)[leaseExpiry] -= jump
	}
	w[concLatencyAt] -= min(jump, w[concLatencyAt])
}

// drop removes the leases that have ended.
func (c *Concurrency) drop(w []uint64, ended func(l []uint64) bool) {
	kept := 0
	for i := range int(w[concLeases]) {
		l := lease(w, i)
		if ended(l) {
			continue
		}
		if kept != i {
			copy(lease(w, kept), l)
		}
		kept++
	}
	w[concLeases] = uint64(kept)
}

// expire removes the leases that have expired at the time of a charge.
func (c *Concurrency) expire(w []uint64, now int64) {
	c.drop(w, func(l []uint64) bool { return int64(l[leaseExpiry]) <= now })
	w[concAt] = max(w[concAt], uint64(now))
}

// adaptedUntil returns when the adapted latency expires, before follow: jump is what the clock was set back by. A latency
// whose time follow moves to zero does not count.
func (c *Concurrency) adaptedUntil(w []uint64, jump int64) int64 {
	if at := int64(w[concLatencyAt]); at > jump {
		return at + c.TTL
	}
	return 0
}

func (c *Concurrency) latency(w []uint64, now, jump int64) int64 {
	if now < c.adaptedUntil(w, jump) {
		return int64(w[concLatency])
	}
	return c.Latency
}

// estimate returns the delay of a request. units counts its own units and all units before them.
func (c *Concurrency) estimate(latency, units int64) int64 {
	if units <= c.Max {
		return 0
	}
	delay, _ := mulDiv(uint64(latency), uint64((units-1)/c.Max), 1)
	return int64(delay)
}

// limit returns the most units that may be held, including the request's own.
func (c *Concurrency) limit(latency int64, req *Request) int64 {
	most := c.Max + c.Queue
	floor := min(req.Floor, most)
	switch {
	case req.MaxWait < 0:
		return c.Max - floor
	case req.MaxWait > 0 && latency > 0:
		if turns := req.MaxWait / latency; turns < most/c.Max {
			return min(most-floor, (turns+1)*c.Max)
		}
	}
	return most - floor
}

// Decide decides one request. A member that already holds a lease renews it and gets the delay of
// its turn in the queue. With commit it updates the state, except after a denial. Without commit
// it writes nothing.
func (c *Concurrency) Decide(w []uint64, req Request, commit bool) Result {
	if commit {
		c.follow(w, req.Now)
	}
	jump := c.jump(w, req.Now)
	now := req.Now + jump
	units, ahead, held := int64(0), int64(0), -1
	busy := c.adaptedUntil(w, jump)
	for i := range int(w[concLeases]) {
		l := lease(w, i)
		if int64(l[leaseExpiry]) <= now {
			continue
		}
		busy = max(busy, int64(l[leaseExpiry]))
		units += int64(l[leaseUnits])
		if l[leaseMember] == req.Member {
			held, ahead = i, units
		}
	}
	latency := c.latency(w, now, jump)
	limit := c.limit(latency, &req)
	res := Result{Remaining: max(0, limit-units), ResetAfter: max(0, busy-now)}
	if req.Cost == 0 {
		res.Allowed, res.At = true, req.Now
		return res
	}
	if held >= 0 {
		res.Allowed, res.At = true, req.Now
		res.Delay = c.estimate(latency, ahead)
		res.ResetAfter = max(res.ResetAfter, c.TTL)
		if commit {
			l := lease(w, held)
			l[leaseExpiry] = max(l[leaseExpiry], uint64(req.Now+c.TTL))
			c.expire(w, req.Now)
		}
		return res
	}
	if req.Cost > limit || units > limit-req.Cost {
		switch later := c.limit(c.Latency, &req); {
		case req.Cost <= limit:
			res.Reason, res.RetryAfter = Limited, c.frees(w, units, limit-req.Cost, now)-now
		case req.Cost <= later: // when the adapted latency has expired
			res.Reason = Limited
			res.RetryAfter = max(c.frees(w, units, later-req.Cost, now), c.adaptedUntil(w, jump)) - now
		default:
			res.Reason = Never
		}
		return res
	}
	res.Allowed, res.At = true, req.Now
	res.Delay = c.estimate(latency, units+req.Cost)
	res.Remaining -= req.Cost
	res.ResetAfter = max(res.ResetAfter, c.TTL)
	if commit {
		c.expire(w, req.Now)
		l := lease(w, int(w[concLeases]))
		l[leaseMember], l[leaseExpiry], l[leaseUnits] = req.Member, uint64(req.Now+c.TTL), uint64(req.Cost)
		w[concLeases]++
	}
	return res
}

// Holds reports whether the state has a lease of this member, ended or not.
func (c *Concurrency) Holds(w []uint64, member uint64) bool {
	for i := range int(w[concLeases]) {
		if lease(w, i)[leaseMember] == member {
			return true
		}
	}
	return false
}

// frees returns the time at which at most room units are held, if leases only expire and none is
// released.
func (c *Concurrency) frees(w []uint64, units, room, now int64) int64 {
	at := now
	for units > room {
		next := int64(-1)
		for i := range int(w[concLeases]) {
			if e := int64(lease(w, i)[leaseExpiry]); e > at && (next < 0 || e < next) {
				next = e
			}
		}
		if next < 0 {
			break
		}
		for i := range int(w[concLeases]) {
			if l := lease(w, i); int64(l[leaseExpiry]) == next {
				units -= int64(l[leaseUnits])
			}
		}
		at = next
	}
	return at
}

// Release ends a member's lease. latency is how long the lease was held: the adapted latency moves
// half way to it. A negative latency reports nothing. Release returns whether the member had a
// lease.
func (c *Concurrency) Release(w []uint64, now int64, member uint64, latency int64) bool {
	c.follow(w, now)
	found := false
	unit := c.latency(w, now, 0)
	c.drop(w, func(l []uint64) bool {
		if int64(l[leaseExpiry]) <= now {
			return true
		}
		if l[leaseMember] == member {
			found = true
			return true
		}
		return false
	})
	if found && latency >= 0 && c.Latency > 0 {
		w[concLatency], w[concLatencyAt] = uint64((unit+latency)/2), uint64(max(now, 1))
		w[concAt] = max(w[concAt], uint64(now))
	}
	return found
}

// Fresh reports whether no lease is held and no latency is adapted.
func (c *Concurrency) Fresh(w []uint64, now int64) bool {
	jump := c.jump(w, now)
	now += jump
	for i := range int(w[concLeases]) {
		if int64(lease(w, i)[leaseExpiry]) > now {
			return false
		}
	}
	return now >= c.adaptedUntil(w, jump)
}

// Convert writes into w, a slice of zeros, the state that from's state becomes under these
// numbers: the leases stay. So does an adapted latency, until it expires under either numbers.
func (c *Concurrency) Convert(from *Concurrency, w, old []uint64, now int64) {
	c.Move(w, old)
	if w[concLatencyAt] == 0 {
		return
	}
	at, jump := int64(w[concLatencyAt]), from.jump(old, now)
	at = min(at, at+from.TTL-c.TTL)
	if at <= jump || now+jump >= at+c.TTL {
		w[concLatency], w[concLatencyAt] = 0, 0
		return
	}
	w[concLatencyAt] = uint64(at)
}
