package pipeline

import (
	"sync/atomic"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// The bounds of pipelines.
const (
	// depth bounds the questions of one pipeline that have begun and have no answer yet.
	depth = 64
	// mostPaused bounds them for all pipelines. A paused question takes some 4 KiB.
	mostPaused = 64 * depth
	// mostIdle bounds the routines that are kept for later questions.
	mostIdle = 4 * depth
	// mostCalls bounds the calls of all pipelines that are in flight besides the one of each caller.
	mostCalls = 256
)

// Pipelines makes pipelines over one store, with common bounds. It is safe for concurrent use. A nil Pipelines makes
// nil pipelines.
type Pipelines struct {
	store  driver.LocalDecider
	joins  bool
	paused chan struct{} // holds a value for each question that may pause
	calls  chan struct{} // holds a value for each call in a goroutine of its own
	idle   chan *question
	closed atomic.Bool
}

// New returns pipelines over a store. It returns nil if the store decides without calls that could share round trips:
// a driver.LocalDecider makes such calls. The argument inFlight is how many calls the store may have in flight;
// pipelines use up to a quarter of them. The keys of a sharded store are on several servers, which fail one by one, so
// questions about different keys share no call.
func New(store sluice.Store, inFlight int, sharded bool) *Pipelines {
	near, ok := store.(driver.LocalDecider)
	if !ok {
		return nil
	}
	return &Pipelines{
		store: near, joins: !sharded,
		paused: make(chan struct{}, mostPaused), calls: make(chan struct{}, min(inFlight/4, mostCalls)), idle: make(chan *question, mostIdle),
	}
}

// Begin returns a pipeline without questions. It is nil if questions should be decided one after another.
func (ps *Pipelines) Begin() *Pipeline {
	if ps == nil {
		return nil
	}
	return &Pipeline{LocalDecider: ps.store, shared: ps, last: map[subject]*question{}}
}

// Close ends the goroutines that are kept for later questions. Pipelines still work afterwards.
func (ps *Pipelines) Close() {
	if ps == nil {
		return
	}
	ps.closed.Store(true)
	for {
		select {
		case q := <-ps.idle:
			q.stop()
		default:
			return
		}
	}
}

// keep keeps a routine for a later question.
func (ps *Pipelines) keep(q *question) {
	select {
	case ps.idle <- q:
	default:
		q.stop()
	}
	if ps.closed.Load() {
		ps.Close()
	}
}

// book reserves room for one more, and reports whether there was room.
func book(room chan struct{}) bool {
	select {
	case room <- struct{}{}:
		return true
	default:
		return false
	}
}
