package guard

import (
	"context"
	"sync/atomic"
	"time"
)

// deadlines gives calls their contexts. A context with a timer for each call costs
// more than all else that a guard does, so calls that begin at about the same time share one.
type deadlines struct {
	length time.Duration
	base   time.Time
	slot   atomic.Pointer[slot]
}

// slot is a short time and the context of the calls that begin in it. It is that of
// the first one: the others have a little less.
type slot struct {
	ctx    context.Context
	cancel context.CancelFunc
	until  time.Duration // since base
}

// slots is how many slots there are in the time of a call.
const slots = 32

func (ds *deadlines) init(length time.Duration) {
	ds.length, ds.base = length, time.Now()
	ds.slot.Store(&slot{})
}

// bound returns the context of a call that begins now, for a caller with a context.
// It has the caller's values, and ends at the deadline, or at the caller's own if that is
// before. That the caller is cancelled does not end the call: who leaves a call behind need not
// leave its outcome open, for the time that is left of a deadline.
func (ds *deadlines) bound(ctx context.Context, now time.Time) (context.Context, context.CancelFunc) {
	if own, ok := ctx.Deadline(); ok && own.Before(now.Add(ds.length)) {
		return context.WithDeadline(ctx, now.Add(ds.length))
	}
	shared := ds.at(now)
	if ctx == context.Background() {
		return shared, nil
	}
	return &bounded{shared, ctx}, nil
}

// at returns the context that ends a call's time after now.
func (ds *deadlines) at(now time.Time) context.Context {
	since := now.Sub(ds.base)
	for {
		sl := ds.slot.Load()
		if since < sl.until {
			return sl.ctx
		}
		next := &slot{until: since + ds.length/slots}
		next.ctx, next.cancel = context.WithDeadline(context.Background(), now.Add(ds.length))
		if ds.slot.CompareAndSwap(sl, next) {
			return next.ctx
		}
		next.cancel()
	}
}

// bounded is a shared context with the values of a caller's.
type bounded struct {
	context.Context
	caller context.Context
}

// Value asks the shared context first: it has no values, but package context finds
// by this how to end contexts that are made of this one, without a goroutine for each.
func (b *bounded) Value(key any) any {
	if v := b.Context.Value(key); v != nil {
		return v
	}
	return b.caller.Value(key)
}
