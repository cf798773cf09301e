package linearizable

import "github.com/sluicehq/sluice"

// warmBucket is a token bucket that starts cold. Guava's ramp for a stable
// interval of 1 ms, 3 ms when cold and 10 ms to warm up: ten units are stored, of
// which the last five are slow, each 400 µs slower than the one before.
type warmBucket struct {
	noLease
	now  int64
	owed int64 // microseconds
	warm int64 // thousandths of the stored units that were taken
}

const (
	stored = 10 * unit
	slow   = 5 * unit
)

func (b warmBucket) advance(now int64) state {
	passed := now - b.now
	b.now = now
	b.warm = max(0, b.warm-max(0, passed-b.owed)) // a unit cools in the stable interval
	b.owed = max(0, b.owed-passed)
	return b
}

// take returns the limiter after cost units.
func (b warmBucket) take(cost int64) warmBucket {
	from := max(0, slow-b.warm)
	b.warm = min(stored, b.warm+cost*unit)
	to := max(0, slow-b.warm)
	// The area under the ramp is 400/2 µs for a squared unit.
	b.owed += cost*unit + (from*from-to*to+4999)/5000
	return b
}

func (b warmBucket) decide(a ask) (sluice.Decision, state) {
	remaining := int64(0)
	if b.owed == 0 {
		remaining = burst - a.floor
	}
	reset := b.owed + b.warm
	switch {
	case a.cost > 0 && a.cost > burst-a.floor:
		return never(remaining, reset), b
	case b.owed > a.wait:
		return limited(remaining, b.owed-a.wait, reset), b
	case a.cost == 0:
		return allowed(remaining, b.owed, reset), b
	}
	next := b.take(a.cost)
	return allowed(0, b.owed, next.owed+next.warm), next
}

// cancel gives back a reservation that nobody stands behind, before its moment: its
// receipt tells what is owed a microsecond before, with it.
func (b warmBucket) cancel(c charge) state {
	left := int64(c.over) - 1 + c.at + c.delay - b.now
	if c.cost == 0 || b.now > c.at+c.delay || b.owed == 0 || b.owed != left {
		return b
	}
	before := warmBucket{now: b.now, warm: max(0, b.warm-c.cost*unit)}
	price := before.take(c.cost).owed
	if b.warm == stored {
		before.warm, price = b.warm, c.cost*unit
	}
	b.owed, b.warm = max(0, b.owed-price), before.warm
	return b
}

func (b warmBucket) settle(c charge, actual int64) state {
	if actual <= c.cost {
		b.owed = max(0, b.owed-(c.cost-actual)*unit)
		return b
	}
	next := b.take(actual - c.cost)
	if next.owed = min(next.owed, (burst+bucketDebt)*unit); next.owed > b.owed {
		return next
	}
	return b
}
