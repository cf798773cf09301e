package algo

// Concurrency bounds what is in flight at once: up to Max units run, up to Queue
// more wait for one of them to end. Each request holds a lease until it is released,
// or until TTL after it was granted or renewed.
//
// A request that must queue is told an estimate of its wait, as
// lua-resty-limit-traffic's limit.conn: Latency · ⌊(units − 1)/Max⌋, where the
// latency adapts to what releases report; an adapted one is kept for a TTL.
//
// The state is a header of four words (leases, units, adapted latency, its time)
// and three for each lease in order of arrival: member, expiry, units.
type Concurrency struct {
	Max, Queue int64
	TTL        int64 // microseconds
	Latency    int64 // microseconds
}

// MaxConcurrency bounds Max + Queue: the state holds an entry for each lease.
const MaxConcurrency = 1 << 16

const (
	concLeases = iota
	concUnits
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

// Words is the size of a Concurrency's state that has room for leases.
func (c *Concurrency) Words(leases int) int { return concFirst + leaseWords*leases }

// Leases is the most leases a state ever needs room for.
func (c *Concurrency) Leases() int { return int(c.Max + c.Queue) }

func lease(w []uint64, i int) []uint64 { return w[concFirst+leaseWords*i:][:leaseWords] }

// Full reports whether the state has no room for another lease at this time.
func (c *Concurrency) Full(w []uint64, now int64) bool {
	n := int(w[concLeases])
	if c.Words(n+1) <= len(w) {
		return false
	}
	for i := range n {
		if int64(lease(w, i)[leaseExpiry]) <= now {
			return false
		}
	}
	return true
}

// Move copies a state into a larger slice of zeros.
func (c *Concurrency) Move(dst, src []uint64) { copy(dst, src[:c.Words(int(src[concLeases]))]) }

// drop removes the leases that have ended.
func (c *Concurrency) drop(w []uint64, ended func(l []uint64) bool) {
	kept, units := 0, uint64(0)
	for i := range int(w[concLeases]) {
		l := lease(w, i)
		if ended(l) {
			continue
		}
		if kept != i {
			copy(lease(w, kept), l)
		}
		kept++
		units += l[leaseUnits]
	}
	w[concLeases], w[concUnits] = uint64(kept), units
}

func (c *Concurrency) latency(w []uint64, now int64) int64 {
	if at := int64(w[concLatencyAt]); at > 0 && now < at+c.TTL {
		return int64(w[concLatency])
	}
	return c.Latency
}

// estimate returns the delay of a request that makes it so many units.
func (c *Concurrency) estimate(w []uint64, units, now int64) int64 {
	if units <= c.Max {
		return 0
	}
	delay, _ := mulDiv(uint64(c.latency(w, now)), uint64((units-1)/c.Max), 1)
	return int64(delay)
}

// Decide answers one question. A member that holds a lease renews it, and is
// told the delay of its place in the queue. With commit the state is moved,
// except by a denial; without, nothing is written.
func (c *Concurrency) Decide(w []uint64, a Ask, commit bool) Answer {
	units, ahead, held := int64(0), int64(0), -1
	var last int64
	for i := range int(w[concLeases]) {
		l := lease(w, i)
		if int64(l[leaseExpiry]) <= a.Now {
			continue
		}
		last = max(last, int64(l[leaseExpiry]))
		units += int64(l[leaseUnits])
		if l[leaseMember] == a.Member {
			held, ahead = i, units
		}
	}
	most := c.Max + c.Queue
	limit := most - a.Floor
	if a.MaxWait < 0 {
		limit = c.Max - a.Floor
	}
	ans := Answer{Remaining: max(0, most-a.Floor-units)}
	if last > 0 {
		ans.ResetAfter = last - a.Now
	}
	if held >= 0 && a.Cost > 0 {
		ans.Allowed, ans.At = true, a.Now
		ans.Delay = c.estimate(w, ahead, a.Now)
		ans.ResetAfter = max(ans.ResetAfter, c.TTL)
		if commit {
			lease(w, held)[leaseExpiry] = uint64(a.Now + c.TTL)
		}
		return ans
	}
	if a.Cost > limit {
		ans.Reason = Never
		return ans
	}
	delay := c.estimate(w, units+a.Cost, a.Now)
	if a.Cost > 0 && (units+a.Cost > limit || a.MaxWait > 0 && delay > a.MaxWait) {
		room := min(limit, most) - a.Cost
		if a.MaxWait > 0 && delay > a.MaxWait {
			room = min(room, max(0, c.Max-a.Cost))
		}
		ans.Reason, ans.RetryAfter = Limited, c.frees(w, units, room, a.Now)-a.Now
		return ans
	}
	ans.Allowed, ans.At = true, a.Now
	if a.Cost == 0 {
		return ans
	}
	ans.Delay = delay
	ans.Remaining = max(0, ans.Remaining-a.Cost)
	ans.ResetAfter = max(ans.ResetAfter, c.TTL)
	if commit {
		c.drop(w, func(l []uint64) bool { return int64(l[leaseExpiry]) <= a.Now })
		l := lease(w, int(w[concLeases]))
		l[leaseMember], l[leaseExpiry], l[leaseUnits] = a.Member, uint64(a.Now+c.TTL), uint64(a.Cost)
		w[concLeases]++
		w[concUnits] += uint64(a.Cost)
	}
	return ans
}

// frees returns when so many leases have expired, if none is released before,
// that no more than room units are left.
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

// Release ends a member's lease and reports how long it was held, which moves the
// latency half way there; negative reports nothing. It reports whether there was one.
func (c *Concurrency) Release(w []uint64, now int64, member uint64, latency int64) bool {
	found := false
	unit := c.latency(w, now)
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
	}
	return found
}

// Fresh reports whether no lease is held and no adapted latency is known.
func (c *Concurrency) Fresh(w []uint64, now int64) bool {
	for i := range int(w[concLeases]) {
		if int64(lease(w, i)[leaseExpiry]) > now {
			return false
		}
	}
	at := int64(w[concLatencyAt])
	return at == 0 || now >= at+c.TTL
}

// Convert writes into w, a slice of zeros, the state that from's state is under
// these numbers: the leases stay.
func (c *Concurrency) Convert(w, old []uint64) { c.Move(w, old) }
