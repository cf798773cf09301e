package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sluicehq/sluice"
)

// op is a method of a store.
type op uint8

const (
	decide op = iota
	decideAll
	cancelCharge
	settle
	release
	reset
	banKey
	liftBan
	listBans
)

// call is one call of the store: its arguments and what came of it. Whoever made a
// call that was left behind never looks at it again.
type call struct {
	op   op
	ctx  context.Context
	done chan struct{} // of room for one; the call has returned
	left bool

	request   sluice.Request
	decision  sluice.Decision
	requests  []sluice.Request // copies: a call that was left behind still reads and writes
	decisions []sluice.Decision
	charge    sluice.Charge
	actual    int64
	latency   time.Duration
	limit     *sluice.Limit
	key       sluice.Key
	lasts     time.Duration
	found     bool
	query     sluice.BanQuery
	page      sluice.BanPage

	err error
}

func newCall() any { return &call{done: make(chan struct{}, 1)} }

func (s *Store) newCall(op op) *call {
	c := s.calls.Get().(*call)
	c.op = op
	return c
}

// keepRequests is the largest batch that is kept for the next one.
const keepRequests = 64

// free gives a call back for the next one.
func (s *Store) free(c *call) {
	if c.left || cap(c.requests) > keepRequests {
		return
	}
	clear(c.requests)
	*c = call{done: c.done, requests: c.requests[:0], decisions: c.decisions[:0]}
	s.calls.Put(c)
}

// errGoexit is the value of a store that has ended the goroutine of a call.
var errGoexit = errors.New("it called runtime.Goexit")

// run makes the call.
func (c *call) run(store sluice.Store) {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			c.err = &PanicError{Value: v, Stack: debug.Stack()}
		} else if !returned {
			c.err = &PanicError{Value: errGoexit, Stack: debug.Stack()}
		}
	}()
	switch c.op {
	case decide:
		c.decision, c.err = store.Decide(c.ctx, c.request)
	case decideAll:
		c.err = store.DecideAll(c.ctx, c.requests, c.decisions)
	case cancelCharge:
		c.err = store.Cancel(c.ctx, c.charge)
	case settle:
		c.err = store.Settle(c.ctx, c.charge, c.actual)
	case release:
		c.err = store.Release(c.ctx, c.charge, c.latency)
	case reset:
		c.err = store.Reset(c.ctx, c.limit, c.key)
	default:
		c.runBan(store)
	}
	returned = true
}

// runBan makes a call of a store that may be a sluice.Banner.
func (c *call) runBan(store sluice.Store) {
	b, ok := store.(sluice.Banner)
	if !ok {
		c.err = errNoBanner
		return
	}
	switch c.op {
	case banKey:
		c.err = b.BanKey(c.ctx, c.limit, c.key, c.lasts)
	case liftBan:
		c.found, c.err = b.LiftBan(c.ctx, c.limit, c.key)
	default:
		c.page, c.err = b.ListBans(c.ctx, c.query)
	}
}

// runAlone makes the call on a goroutine of its own.
func (s *Store) runAlone(c *call) {
	defer func() { // also if the store ends the goroutine
		s.inFlight.Add(-1)
		c.done <- struct{}{}
	}()
	c.run(s.o.Store)
}

// runHere makes the call on that of its caller. If the store ends it, nobody is left to
// take in what that says.
func (s *Store) runHere(c *call, p pass) {
	returned := false
	defer func() {
		s.inFlight.Add(-1)
		if !returned {
			s.failed.Add(1)
			s.breaker.fail(p, c.err)
		}
	}()
	c.run(s.o.Store)
	returned = true
}

// ask makes a call of the store, if it may be asked, and takes in what that says of
// it. down says that the store did not answer the question, and err why; otherwise
// err is the store's answer, or the caller's own context has ended.
func (s *Store) ask(ctx context.Context, c *call) (down bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if s.inFlight.Add(1) > int64(s.o.MaxInFlight) {
		s.inFlight.Add(-1)
		s.shed.Add(1)
		return true, ErrBusy
	}
	p, ok := s.breaker.enter()
	if !ok {
		s.inFlight.Add(-1)
		s.refused.Add(1)
		return true, ErrOpen
	}
	if p.probe {
		s.announce(p)
	}
	good, start := s.breaker.good.Load(), time.Now()
	bound, cancel := s.deadlines.bound(ctx, start)
	if cancel != nil {
		defer cancel()
	}
	c.ctx = bound
	if s.o.Inline {
		s.runHere(c, p)
	} else {
		go s.runAlone(c)
		c.wait(ctx)
	}
	took := time.Since(start)
	if c.op == listBans {
		return false, s.listed(ctx, c, p)
	}
	if c.left {
		err = errLate
	} else if err = c.err; err == nil || isAnswer(err) {
		s.answered(p, took)
		return false, err
	}
	if ctx.Err() != nil {
		s.givenUp.Add(1)
		switch {
		case took >= s.o.Slow, cancel == nil && bound.Err() != nil:
			s.breaker.fail(p, ErrSlow) // whoever left, it had its time
		case took >= s.o.Deadline/patience && s.breaker.good.Load() == good:
			s.breaker.fail(p, ErrLate) // it answered nobody else meanwhile
		default:
			s.breaker.giveUp(p)
		}
		return false, callers(ctx, c)
	}
	s.failed.Add(1)
	if bound.Err() != nil {
		s.late.Add(1)
		if !errors.Is(err, ErrLate) {
			err = fmt.Errorf("%w: %w", ErrLate, err)
		}
	}
	s.breaker.fail(p, err)
	return true, err
}

// patience is the part of the deadline after which a caller that leaves says something of
// a store that answered nobody while it waited. Otherwise a store that is gone would be
// asked for ever by callers whose own deadlines are shorter than the guard's. Who leaves earlier
// says nothing: callers choose their deadlines, and could open the breaker by them.
const patience = 4

// announce tells the hook that a probe is made, which is not if the hook panics.
func (s *Store) announce(p pass) {
	told := false
	defer func() {
		if !told {
			s.inFlight.Add(-1)
			s.breaker.giveUp(p)
		}
	}()
	s.breaker.deliver()
	told = true
}

// lastWord is how long a batch may take after its deadline to say what was denied in part: it
// knows of those who do not answer only then.
const lastWord = time.Millisecond

// wait waits for the call, its deadline or the end of its caller's context, and
// leaves it behind then.
func (c *call) wait(caller context.Context) {
	select {
	case <-c.done:
		return
	case <-c.ctx.Done():
	case <-caller.Done():
	}
	if c.op == decideAll && caller.Err() == nil {
		late := time.NewTimer(lastWord)
		defer late.Stop()
		select {
		case <-c.done:
			return
		case <-caller.Done():
		case <-late.C:
		}
	}
	select {
	case <-c.done: // both
	default:
		c.left = true
	}
}

// answered takes in a call that the store answered.
func (s *Store) answered(p pass, took time.Duration) {
	if took <= s.o.Slow {
		s.breaker.succeed(p)
		return
	}
	s.slow.Add(1)
	s.breaker.fail(p, fmt.Errorf("%w: it took %v", ErrSlow, took))
}

// callers returns the error of a call whose caller's own context has ended.
func callers(ctx context.Context, c *call) error {
	switch cause := ctx.Err(); {
	case c.left:
		return fmt.Errorf("guard: left the store's call: %w: %w", cause, sluice.ErrUnknownOutcome)
	case errors.Is(c.err, cause):
		return c.err
	default:
		return fmt.Errorf("guard: %w: %w", cause, c.err)
	}
}
