package bandwidth

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
)

// toll is what one connection has of one flow. It pays for a chunk at a time: so the
// store is asked seldom, and a connection that writes a line at a time gets as much
// as one that writes megabytes.
type toll struct {
	flow Flow
	// credit is how many bytes are paid for and have not moved. It is negative for
	// bytes that have, and are still to be paid for.
	credit int64
	// charge is the last payment, of which the credit is what is left.
	charge sluice.Charge
	// moment is when the bytes of the last payment were let through.
	moment time.Time
}

// busy is the time within which a connection that needs more is given a chunk, and
// after which one that does not gives back what it has.
const busy = BurstTime + ChunkTime

// pay pays for what is owed, or for as much of it as the store gives at once, and tells
// how long to wait until it may move. No wait ends later than left.
func (t *toll) pay(ctx context.Context, now time.Time, left time.Duration) (d sluice.Decision, err error) {
	l := t.flow.limiter
	cost := -t.credit
	if now.Sub(t.moment) < busy {
		cost = max(cost, l.chunk)
	}
	q := sluice.Request{Limit: l.limit, Key: t.flow.key, Cost: cost, MaxWait: left}
	d, err = l.store.Decide(ctx, q)
	if err == nil && !d.Allowed && 0 < d.Limit && d.Limit < cost {
		// What stands in for a store has a share of the limit, which may hold less than a chunk.
		q.Cost = d.Limit
		d, err = l.store.Decide(ctx, q)
	}
	if err == nil && d.Allowed {
		t.credit += q.Cost
		t.charge = q.Charge(&d)
		t.moment = now.Add(d.Delay)
	}
	return d, err
}

// forgive lets pass what is owed.
func (t *toll) forgive() { t.credit, t.charge = 0, sluice.Charge{} }

// end gives back the credit, or pays what is owed, whenever it is due.
func (t *toll) end(ctx context.Context) error {
	l, credit := t.flow.limiter, t.credit
	defer t.forgive()
	switch {
	case credit < 0:
		_, err := l.store.Decide(ctx, sluice.Request{Limit: l.limit, Key: t.flow.key, Cost: -credit, MaxWait: forever})
		return err
	case credit > 0 && t.charge.Limit != nil:
		return l.store.Settle(ctx, t.charge, max(0, t.charge.Cost-credit))
	}
	return nil
}
