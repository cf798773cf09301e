package rueidisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/redisstore"
)

// A lane decides which calls may run in the goroutine of their caller. Rueidis can block a
// caller for longer than its context. It does so while it dials for another caller, and
// while the queue to a server that does not answer is full (1,024 calls). A goroutine for
// each call would cost a third of the throughput. So a call to a single server gets one only
// if the server is in doubt; other calls always get one.
type lane struct {
	simple   bool      // a single server, for which rueidis does not dial in the background
	start    time.Time // the times below count from here
	answered atomic.Int64
	failed   atomic.Int64
	gaveUp   atomic.Int64 // when a caller's context ended before its call; 0 for never
	direct   atomic.Int32 // calls that run in their caller's goroutine
	// apart holds a value for each call in a goroutine of its own, by the slots of a cluster. A
	// node that does not answer fills only the channels of its own slots.
	apart [slotGroups + 1]chan struct{}
	// mending is set while a call opens a lost connection.
	mending [slotGroups + 1]atomic.Bool
}

const (
	groupSlots = 256
	slotGroups = 16384 / groupSlots // one more is for calls without a slot
)

const (
	// Together these fit into one queue of rueidis, so that a direct call finds room.
	maxDirect = 512
	maxApart  = 512

	// A server that has not answered lately is in doubt.
	lately = 100 * time.Millisecond
	// After a failure a server is in doubt for this time. By default, rueidis takes less to
	// give up a connection (10 s) and a dial (5 s).
	doubt = 20 * time.Second
)

func newLane() *lane {
	l := &lane{start: time.Now()}
	for i := range l.apart {
		l.apart[i] = make(chan struct{}, maxApart)
	}
	l.answered.Store(-int64(lately))
	l.failed.Store(-int64(doubt))
	return l
}

// apartOf returns the channel for calls to a slot, or to a server without slots.
func (l *lane) apartOf(slot uint16) chan struct{} { return l.apart[groupOf(slot)] }

// groupOf returns the group of a slot, or of calls without a slot.
func groupOf(slot uint16) uint16 { return min(slot/groupSlots, slotGroups) }

// now returns the time for the other methods.
func (l *lane) now() time.Duration { return time.Since(l.start) }

// enter reports whether a call may run directly. The caller must call leave after it.
func (l *lane) enter(now time.Duration) bool {
	calm := l.simple && now-time.Duration(l.answered.Load()) < lately && now-time.Duration(l.failed.Load()) >= doubt
	if !calm {
		return false
	}
	if l.direct.Add(1) > maxDirect {
		l.leave()
		return false
	}
	return true
}

func (l *lane) leave() { l.direct.Add(-1) }

// note records the outcome of a call that began at a time.
func (l *lane) note(ctx context.Context, began time.Duration, err error) {
	if err == nil || isReply(err) {
		l.answered.Store(int64(began))
	} else if !errors.Is(err, context.Canceled) {
		now := int64(l.now())
		l.failed.Store(now)
		if _, other := ctx.(beside); !other && ctx.Err() != nil {
			l.gaveUp.Store(now)
		}
	}
}

func isReply(err error) bool {
	var reply *redisstore.ServerError
	return errors.As(err, &reply)
}
