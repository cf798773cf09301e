package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sluicehq/sluice"
)

// call is one call of the store: its arguments and its results. A call that was left behind is
// not read or used again.
type call struct {
	do    func(c *call, store sluice.Store) error
	lists bool // it is a list of bans
	ctx   context.Context
	done  chan struct{} // has room for one value; the call has returned
	left  bool          // the call was left behind
	uses  []use         // of the lanes of its shards

	request   sluice.Request
	decision  sluice.Decision
	requests  []sluice.Request // copies: a call that was left behind still uses them
	decisions []sluice.Decision

	err error
}

func newCall() any { return &call{done: make(chan struct{}, 1)} }

func (s *Store) newCall(do func(c *call, store sluice.Store) error) *call {
	c := s.calls.Get().(*call)
	c.do = do
	return c
}

func decide(c *call, store sluice.Store) (err error) {
	c.decision, err = store.Decide(c.ctx, c.request)
	return err
}

func decideAll(c *call, store sluice.Store) error {
	return store.DecideAll(c.ctx, c.requests, c.decisions)
}

// oneCall is a call of the store that decides nothing.
type oneCall func(ctx context.Context, store sluice.Store) error

// about makes a call about a key. What the function sets is valid only without an error: after an error, the call may
// have been left behind.
func (s *Store) about(ctx context.Context, k sluice.Key, one oneCall) error {
	c := s.newCall(func(c *call, store sluice.Store) error { return one(c.ctx, store) })
	defer s.free(c)
	_, err := s.call(ctx, c, s.lanes.of(k))
	return err
}

// keepRequests is the largest batch whose memory is used again.
const keepRequests = 64

// free lets a later call use the memory of a call.
func (s *Store) free(c *call) {
	if c.left || cap(c.requests) > keepRequests {
		return
	}
	clear(c.requests)
	*c = call{done: c.done, uses: c.uses[:0], requests: c.requests[:0], decisions: c.decisions[:0]}
	s.calls.Put(c)
}

// errGoexit is the value of a PanicError if the store has ended the goroutine of a call.
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
	c.err = c.do(c, store)
	returned = true
}

// runAlone makes the call. It is the goroutine of the call.
func (s *Store) runAlone(c *call) {
	defer func() { // also if the store ends the goroutine
		c.leave()
		c.done <- struct{}{}
	}()
	c.run(s.o.Store)
}

// runHere makes the call on the goroutine of its caller. If the store ends the goroutine,
// runHere reports the failure itself.
func (s *Store) runHere(c *call) {
	returned := false
	defer func() {
		c.leave()
		if !returned {
			s.failed.Add(1)
			s.fail(c, c.err, c.err)
		}
	}()
	c.run(s.o.Store)
	returned = true
}

// call makes a call of one shard of the store, if its breaker permits it. See make.
func (s *Store) call(ctx context.Context, c *call, l *lane) (down bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := s.enter(c, l); err != nil {
		return true, err
	}
	return s.make(ctx, c)
}

// make makes a call of the store that has entered its lanes, and reports the outcome to their
// breakers. down means that the store did not answer, and err is the reason. Otherwise err is
// the store's answer, or the caller's own context has ended.
func (s *Store) make(ctx context.Context, c *call) (down bool, err error) {
	if c.probes() {
		s.announce(c)
	}
	start := time.Now()
	bound, cancel := s.deadlines.bound(ctx, start)
	if cancel != nil {
		defer cancel()
	}
	c.ctx = bound
	if s.o.Inline {
		s.runHere(c)
	} else {
		go s.runAlone(c)
		c.wait(ctx)
	}
	took := time.Since(start)
	if c.lists {
		return false, s.listed(ctx, c)
	}
	if c.left {
		err = errLate
	} else if err = c.err; err == nil || isAnswer(err) {
		s.answered(c, took)
		return false, err
	} else if errors.Is(err, sluice.ErrForeignState) {
		// The store works, but not for this key. Other keys must not get the fallback.
		s.answered(c, took)
		return true, err
	}
	if ctx.Err() != nil {
		s.givenUp.Add(1)
		switch {
		case took >= s.o.Slow, cancel == nil && bound.Err() != nil:
			s.fail(c, err, ErrSlow) // it had its time, although the caller left
		case took >= s.o.Deadline/patience:
			c.failSilent(ErrLate)
		default:
			c.giveUp()
		}
		return false, callerError(ctx, c)
	}
	s.failed.Add(1)
	if bound.Err() != nil {
		s.late.Add(1)
		if !errors.Is(err, ErrLate) {
			err = fmt.Errorf("%w: %w", ErrLate, err)
		}
	}
	s.fail(c, err, err)
	return true, err
}

// patience is the part of the deadline that a caller must wait for its call to count: a
// fourth. If the caller leaves later, and the store answered no call meanwhile, the call
// counts as failed. Otherwise callers with shorter deadlines than the guard's would call a
// dead store forever. If the caller leaves earlier, the call does not count: callers choose
// their deadlines, and could open the breaker with short ones.
const patience = 4

// announce calls the hook before a probe. If the hook panics, there is no probe.
func (s *Store) announce(c *call) {
	delivered := false
	defer func() {
		if !delivered {
			c.leave()
			c.giveUp()
		}
	}()
	s.hooks.deliver()
	delivered = true
}

// lastWord is how long a batch may take after its deadline to report which requests were
// denied. The store detects only at the deadline which of its servers did not answer.
const lastWord = time.Millisecond

// wait waits for the call, its deadline, or the end of its caller's context. It leaves behind
// a call that has not returned.
func (c *call) wait(caller context.Context) {
	select {
	case <-c.done:
		return
	case <-c.ctx.Done():
	case <-caller.Done():
	}
	if len(c.requests) > 0 && caller.Err() == nil {
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

// answered reports to the breaker that the store answered a call.
func (s *Store) answered(c *call, took time.Duration) {
	if took <= s.o.Slow {
		c.succeed()
		return
	}
	s.slow.Add(1)
	s.fail(c, nil, fmt.Errorf("%w: it took %v", ErrSlow, took))
}

// callerError returns the error of a call whose caller's own context has ended.
func callerError(ctx context.Context, c *call) error {
	switch cause := ctx.Err(); {
	case c.left:
		return fmt.Errorf("guard: left the store's call: %w: %w", cause, sluice.ErrUnknownOutcome)
	case errors.Is(c.err, cause):
		return c.err
	default:
		return fmt.Errorf("guard: %w: %w", cause, c.err)
	}
}

// Errors for errors.Is. Decisions do not return them, because the fallback decides. Ends of
// charges, resets and calls about bans do.
var (
	// ErrOpen: the breaker is open, and the store was not called.
	ErrOpen = errors.New("guard: the store is failing and is not called until a probe succeeds; try again in a second")
	// ErrBusy: too many calls are in flight, and the store was not called.
	ErrBusy = errors.New("guard: too many calls of the store are in flight; try again in a second")
	// ErrLate: the store did not return by the deadline. The error also wraps
	// sluice.ErrUnknownOutcome, unless the store reports that nothing was changed.
	ErrLate = errors.New("guard: the store did not answer in time")
	// ErrSlow: the store returned, but took longer than Options.Slow. Only
	// Options.OnTransition and Stats.Last report it.
	ErrSlow = errors.New("guard: the store is slow")
)

// errLate is ErrLate about a call that was left behind.
var errLate = fmt.Errorf("%w: %w", ErrLate, sluice.ErrUnknownOutcome)

// errNoBanner reports a store that is not a sluice.Banner.
var errNoBanner = fmt.Errorf("guard: the store supports no list of bans, and no bans by hand: %w", errors.ErrUnsupported)

// PanicError reports a store that panicked. What it did before is unknown.
type PanicError struct {
	// Value is the value of the panic.
	Value any
	// Stack is the stack of the goroutine.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("guard: the store panicked: %v", e.Value) }

// Unwrap returns sluice.ErrUnknownOutcome.
func (e *PanicError) Unwrap() error { return sluice.ErrUnknownOutcome }

// isAnswer reports whether an error is a valid answer of a working store.
func isAnswer(err error) bool {
	var request *sluice.RequestError
	return errors.As(err, &request) || errors.Is(err, sluice.ErrUnsupported) || errors.Is(err, sluice.ErrEnded) || errors.Is(err, sluice.ErrActed) ||
		errors.Is(err, sluice.ErrLeaseLost) || errors.Is(err, sluice.ErrClosed) || errors.Is(err, errNoBanner)
}
