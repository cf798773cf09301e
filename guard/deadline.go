package guard

import (
	"context"
	"sync/atomic"
	"time"
)

// deadlines gives calls their contexts. A context with a timer for each call would cost more
// than everything else in a guard. So calls that begin at about the same time share one.
type deadlines struct {
	length time.Duration
	base   time.Time
	last   atomic.Pointer[shared]
}

// shared is the context of the calls that begin in a short time. It ends at the deadline of
// the first call; the others have a little less time.
type shared struct {
	ctx    context.Context
	cancel context.CancelFunc
	until  time.Duration // calls that begin before this time since base share the context
}

// perDeadline is how many shared contexts begin within the length of one deadline.
const perDeadline = 32

func (ds *deadlines) init(length time.Duration) {
	ds.length, ds.base = length, time.Now()
	ds.last.Store(&shared{})
}

// bound returns the context of a call that begins now. It has the values of the caller's
// context. It ends at the deadline, or at the caller's own deadline if that is
// earlier. A cancellation by the caller ends it only if the caller's own deadline is
// earlier. Otherwise the call may use the rest of its time, so that its outcome does not
// stay unknown.
func (ds *deadlines) bound(ctx context.Context, now time.Time) (context.Context, context.CancelFunc) {
	if own, ok := ctx.Deadline(); ok && own.Before(now.Add(ds.length)) {
		return ctx, doNothing
	}
	common := ds.at(now)
	if ctx == context.Background() {
		return common, nil
	}
	return &bounded{common, ctx}, nil
}

// doNothing is what ends a caller's own context.
func doNothing() {}

// at returns the shared context of a call that begins now.
func (ds *deadlines) at(now time.Time) context.Context {
	since := now.Sub(ds.base)
	for {
		last := ds.last.Load()
		if since < last.until {
			return last.ctx
		}
		next := &shared{until: since + ds.length/perDeadline}
		next.ctx, next.cancel = context.WithDeadline(context.Background(), now.Add(ds.length))
		if ds.last.CompareAndSwap(last, next) {
			return next.ctx
		}
		next.cancel()
	}
}

// bounded is a shared context with the values of a caller's context.
type bounded struct {
	context.Context
	caller context.Context
}

// Value looks into the shared context first. The shared context has no values, but package
// context uses Value to end derived contexts without a goroutine for each.
func (b *bounded) Value(key any) any {
	if v := b.Context.Value(key); v != nil {
		return v
	}
	return b.caller.Value(key)
}
