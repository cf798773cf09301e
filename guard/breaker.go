package guard

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// State is the state of the circuit breaker.
type State uint8

// The states.
const (
	// StateClosed: the guard calls the store.
	StateClosed State = iota
	// StateOpen: the store fails. The guard does not call it until some time has passed.
	StateOpen
	// StateHalfOpen: one call, the probe, is in progress. All other requests fall back.
	StateHalfOpen
)

// String returns the state as one word.
func (s State) String() string {
	switch s {
	case StateClosed:
		return "closed"
	case StateOpen:
		return "open"
	default:
		return "half-open"
	}
}

// breaker decides whether the guard calls the store. While it is closed, a permit costs two
// atomic loads.
type breaker struct {
	failures uint64
	retry    time.Duration
	hooks    *hooks // shared with the other breakers of the store

	// word is the state in the low two bits, and above it how often the state has changed.
	// The outcome of a call counts only for the state in which the call began.
	word   atomic.Uint64
	streak atomic.Uint64 // failures in a row, in this state
	good   atomic.Uint64 // calls that did not fail, in all states
	opened atomic.Uint64 // from closed

	mu     sync.Mutex
	since  time.Time // when the state began
	next   time.Time // when a probe may be made, while open
	last   error
	lastAt time.Time
	// The failures within window, since the first one of them.
	first  time.Time
	failed uint64
	goodAt uint64 // good, before the first failure
}

// window is how long a failure counts in the ratio of failures.
const window = time.Second

// errGivenUp is the reason when the breaker opens again without a failure.
var errGivenUp = errors.New("guard: the caller of the probe gave up before the store answered")

type transition struct {
	from, to State
	why      error
}

// hooks call a function for the transitions of some breakers, in order and one at a time.
type hooks struct {
	hook func(from, to State, why error) // may be nil

	mu         sync.Mutex
	pending    []transition // not delivered yet
	delivering bool
}

// permit allows one call of the store. Its outcome must be reported to the breaker.
type permit struct {
	word  uint64
	probe bool
}

func (b *breaker) init(o *Options, h *hooks) {
	b.failures, b.retry, b.hooks = uint64(o.Failures), o.Retry, h
	b.since = time.Now()
}

// stats adds the figures of the breaker. Since and Last are the latest of several breakers.
func (b *breaker) stats(st *Stats, failedAt *time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.After(st.Since) {
		st.Since = b.since
	}
	if b.last != nil && (st.Last == nil || b.lastAt.After(*failedAt)) {
		st.Last, *failedAt = b.last, b.lastAt
	}
	st.Answered += b.good.Load()
	st.Opened += b.opened.Load()
}

func stateOf(word uint64) State { return State(word & 3) }

func (b *breaker) state() State { return stateOf(b.word.Load()) }

// enter returns a permit, if the store may be called. The caller that gets the permit of a
// probe must call deliver of its hooks.
func (b *breaker) enter() (p permit, ok bool) {
	word := b.word.Load()
	switch stateOf(word) {
	case StateClosed:
		return permit{word: word}, true
	case StateOpen:
		return b.probe()
	default:
		return p, false
	}
}

// probe returns the permit of the probe, if it is time for one.
func (b *breaker) probe() (p permit, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.state() != StateOpen || now.Before(b.next) {
		return p, false
	}
	return permit{b.move(StateHalfOpen, now, nil), true}, true
}

// succeed reports that a call did not fail.
func (b *breaker) succeed(p permit) {
	b.good.Add(1)
	if !p.probe {
		// A failure may come in between. It is forgotten with the earlier ones.
		if b.streak.Load() != 0 && b.word.Load() == p.word {
			b.streak.Store(0)
		}
		return
	}
	b.end(StateClosed, nil, 0)
}

// fail reports that a call failed.
func (b *breaker) fail(p permit, why error) {
	if p.probe {
		b.end(StateOpen, why, b.pause())
		return
	}
	now := time.Now()
	b.mu.Lock()
	b.last, b.lastAt = why, now
	if b.word.Load() != p.word {
		b.mu.Unlock()
		return
	}
	if b.failed == 0 || now.Sub(b.first) > window {
		b.first, b.failed, b.goodAt = now, 0, b.good.Load()
	}
	b.failed++
	streak := b.streak.Add(1)
	if streak < b.failures && (b.failed < b.failures || b.failed < b.good.Load()-b.goodAt) {
		b.mu.Unlock()
		return
	}
	b.opened.Add(1)
	b.next = now.Add(b.pause())
	b.move(StateOpen, now, why)
	b.mu.Unlock()
	b.hooks.deliver()
}

// giveUp reports that a call has no outcome, because its caller left.
func (b *breaker) giveUp(p permit) {
	if p.probe {
		b.end(StateOpen, errGivenUp, 0)
	}
}

// end leaves the state StateHalfOpen. Only the outcome of the probe does that.
func (b *breaker) end(to State, why error, pause time.Duration) {
	b.mu.Lock()
	now := time.Now()
	if to == StateOpen {
		b.next = now.Add(pause)
		if why != errGivenUp { //nolint:errorlint // it is never wrapped
			b.last, b.lastAt = why, now
		}
	}
	b.move(to, now, why)
	b.mu.Unlock()
	b.hooks.deliver()
}

// pause returns a random time until the next probe, so that processes that lost the same
// store do not return to it all at once.
func (b *breaker) pause() time.Duration {
	half := b.retry / 2
	return half + rand.N(b.retry-half)
}

// overdue returns how long the store could have been called again, but was not.
func (b *breaker) overdue() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.next)
}

// untilNext returns the time until the store may be called again.
func (b *breaker) untilNext() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state() != StateOpen {
		return 0
	}
	return max(0, time.Until(b.next))
}

// move changes the state and returns the new word. The caller holds b.mu, and calls deliver
// after it has unlocked it.
func (b *breaker) move(to State, now time.Time, why error) uint64 {
	old := b.word.Load()
	word := old&^3 + 4 | uint64(to)
	b.word.Store(word)
	b.streak.Store(0)
	b.failed, b.since = 0, now
	b.hooks.add(transition{stateOf(old), to, why})
	return word
}

// add adds a transition. The caller holds the mutex of its breaker, and calls deliver after it
// has unlocked it.
func (h *hooks) add(t transition) {
	if h.hook == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending = append(h.pending, t)
}

// deliver calls the hook for all pending transitions, in order. One goroutine delivers at a
// time; it also delivers the transitions that others add meanwhile.
func (h *hooks) deliver() {
	if h.hook == nil {
		return
	}
	h.mu.Lock()
	if h.delivering {
		h.mu.Unlock()
		return
	}
	h.delivering = true
	defer func() { // also if the hook panics
		h.delivering = false
		h.mu.Unlock()
	}()
	for len(h.pending) > 0 {
		t := h.pending[0]
		h.pending = h.pending[1:]
		h.callHook(t)
	}
}

// callHook calls the hook with h.mu unlocked.
func (h *hooks) callHook(t transition) {
	h.mu.Unlock()
	defer h.mu.Lock()
	h.hook(t.from, t.to, t.why)
}
