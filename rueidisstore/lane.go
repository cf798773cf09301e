package rueidisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/redisstore"
)

// A lane tells which calls may run in the goroutine of their caller. Rueidis can hold
// a caller for longer than the context allows: while its queue to a silent server is
// full (1,024 calls that nobody answered), and while it dials for someone else. A
// goroutine for every call would cost a third of the throughput, so calls get one
// only where there is doubt.
type lane struct {
	simple   bool      // one server, for which rueidis does not dial in the background
	start    time.Time // what the times below count from
	answered atomic.Int64
	failed   atomic.Int64
	direct   atomic.Int32  // calls that run in their caller's goroutine
	apart    chan struct{} // holds one for each call that does not
}

const (
	// Together they fit into one queue of rueidis, so that a direct call finds room.
	maxDirect = 512
	maxApart  = 512

	// A server that has not answered lately is in doubt.
	lately = 100 * time.Millisecond
	// After a failure it is in doubt for longer than rueidis takes, unless told
	// otherwise, to give up a connection (10 s) and a dial (5 s).
	doubt = 20 * time.Second
)

func newLane(simple bool) *lane {
	l := &lane{simple: simple, start: time.Now(), apart: make(chan struct{}, maxApart)}
	l.answered.Store(-int64(lately))
	l.failed.Store(-int64(doubt))
	return l
}

// now is the time that the other methods take.
func (l *lane) now() time.Duration { return time.Since(l.start) }

// enter takes a place among the direct calls, which leave gives back.
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

// note learns from what a call that began at that time came to.
func (l *lane) note(began time.Duration, err error) {
	if err == nil || isReply(err) {
		l.answered.Store(int64(began))
	} else if !errors.Is(err, context.Canceled) {
		l.failed.Store(int64(l.now()))
	}
}

func isReply(err error) bool {
	var reply *redisstore.ServerError
	return errors.As(err, &reply)
}
