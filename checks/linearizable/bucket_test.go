package linearizable

import "github.com/sluicehq/sluice"

// unit is the microseconds in which one unit comes back.
const unit = 1000

// bucket is a token bucket of burst units that may owe as many again.
type bucket struct {
	noLease
	now     int64
	missing int64 // microseconds until it is full
	lent    bool  // a part of a reservation came back, or one waits for its floor
}

const (
	burst      = 8
	bucketDebt = 3
)

func (b bucket) advance(now int64) state {
	b.missing = max(0, b.missing-(now-b.now))
	b.now = now
	b.lent = b.lent && b.missing > 0
	return b
}

// take returns the bucket with so much more missing.
func (b bucket) take(missing int64) bucket {
	b.missing = max(0, b.missing+missing)
	b.lent = b.lent && b.missing > 0
	return b
}

func (b bucket) decide(a ask) (sluice.Decision, state) {
	room := (burst - a.floor) * unit
	remaining := (room - b.missing) / unit
	if a.cost == 0 {
		room = burst * unit
	} else if a.cost > burst-a.floor {
		return never(remaining, b.missing), b
	}
	next := b.take(a.cost * unit)
	delay := max(0, next.missing-room)
	switch {
	case delay > a.wait:
		return limited(remaining, delay-a.wait, b.missing), b
	case a.cost == 0:
		return allowed(remaining, delay, b.missing), b
	case delay > 0 && a.floor > 0:
		next.lent = true
	}
	return allowed(remaining-a.cost, delay, next.missing), next
}

// cancel gives back what no later reservation stands on: the bucket misses no more
// than what the charge left it with, less what has come back since.
func (b bucket) cancel(c charge) state {
	if c.cost == 0 || b.now > c.at+c.delay || b.lent && c.delay == 0 {
		return b
	}
	left := int64(burst * unit)
	if c.delay > 0 {
		left += c.delay - c.floor*unit
	}
	give := c.cost * unit
	if later := b.missing - (left - (b.now - c.at)); later > 0 {
		if b.lent || later >= give {
			return b
		}
		give -= later
		b.lent = true
	}
	return b.take(-give)
}

func (b bucket) settle(c charge, actual int64) state {
	more := (actual - c.cost) * unit
	if more <= 0 {
		b.lent = b.lent || more < 0 && b.missing > burst*unit
		return b.take(more)
	}
	most := max(b.missing, (burst+bucketDebt)*unit)
	return b.take(min(more, most-b.missing))
}
