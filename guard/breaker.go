package guard

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// breaker decides whether the store is asked. A call that passes costs two loads.
type breaker struct {
	failures uint64
	retry    time.Duration
	hook     func(from, to State, why error)

	// word is the state in the low two bits, and above it the number of changes of it.
	// What a call says counts only for the state in which it was made.
	word   atomic.Uint64
	streak atomic.Uint64 // failures in a row, in this state
	good   atomic.Uint64 // calls that did not fail, ever
	opened atomic.Uint64 // from closed

	mu    sync.Mutex
	since time.Time // of the state
	next  time.Time // when a probe may be made, while open
	last  error
	// Of the calls since the first failure within window:
	first  time.Time
	failed uint64
	goodAt uint64 // good, before it

	queue      []transition // not delivered yet
	delivering bool
}

// window is how long a failure counts for the ratio of failures.
const window = time.Second

// errGivenUp is why the breaker opens again without a failure.
var errGivenUp = errors.New("guard: the caller of the probe gave up before the store answered")

type transition struct {
	from, to State
	why      error
}

// pass is what a call may do, and what it says counts for.
type pass struct {
	word  uint64
	probe bool
}

func (b *breaker) init(o *Options) {
	b.failures, b.retry, b.hook = uint64(o.Failures), o.Retry, o.OnTransition
	b.since = time.Now()
}

// stats fills in what the breaker knows.
func (b *breaker) stats(st *Stats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st.State, st.Since, st.Last = b.state(), b.since, b.last
	st.Answered, st.Opened = b.good.Load(), b.opened.Load()
}

func stateOf(word uint64) State { return State(word & 3) }

func (b *breaker) state() State { return stateOf(b.word.Load()) }

// enter asks for a pass. Who gets that of a probe delivers.
func (b *breaker) enter() (p pass, ok bool) {
	word := b.word.Load()
	switch stateOf(word) {
	case Closed:
		return pass{word: word}, true
	case Open:
		return b.probe()
	default:
		return p, false
	}
}

// probe asks for the pass of the probe.
func (b *breaker) probe() (p pass, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.state() != Open || now.Before(b.next) {
		return p, false
	}
	return pass{b.move(HalfOpen, now, nil), true}, true
}

// succeed takes in a call that did not fail.
func (b *breaker) succeed(p pass) {
	b.good.Add(1)
	if !p.probe {
		// A failure may come in between: it is forgotten with those before.
		if b.streak.Load() != 0 && b.word.Load() == p.word {
			b.streak.Store(0)
		}
		return
	}
	b.end(Closed, nil, 0)
}

// fail takes in a call that failed.
func (b *breaker) fail(p pass, why error) {
	if p.probe {
		b.end(Open, why, b.pause())
		return
	}
	b.mu.Lock()
	b.last = why
	if b.word.Load() != p.word {
		b.mu.Unlock()
		return
	}
	now := time.Now()
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
	b.move(Open, now, why)
	b.mu.Unlock()
	b.deliver()
}

// giveUp takes in a call that says nothing: its caller left.
func (b *breaker) giveUp(p pass) {
	if p.probe {
		b.end(Open, errGivenUp, 0)
	}
}

// end moves on from the state of the probe, which nobody else does.
func (b *breaker) end(to State, why error, pause time.Duration) {
	b.mu.Lock()
	now := time.Now()
	if to == Open {
		b.next = now.Add(pause)
		if why != errGivenUp { //nolint:errorlint // it is given as it is
			b.last = why
		}
	}
	b.move(to, now, why)
	b.mu.Unlock()
	b.deliver()
}

// pause returns a random time until the next probe: processes that lost the same
// store do not come back as one.
func (b *breaker) pause() time.Duration {
	half := b.retry / 2
	return half + rand.N(b.retry-half)
}

// untilNext returns the time until the store may be asked again.
func (b *breaker) untilNext() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state() != Open {
		return 0
	}
	return max(0, time.Until(b.next))
}

// move changes the state and returns the new word. b.mu is held; who unlocks it delivers.
func (b *breaker) move(to State, now time.Time, why error) uint64 {
	old := b.word.Load()
	word := old&^3 + 4 | uint64(to)
	b.word.Store(word)
	b.streak.Store(0)
	b.failed, b.since = 0, now
	if b.hook != nil {
		b.queue = append(b.queue, transition{stateOf(old), to, why})
	}
	return word
}

// deliver tells the hook what is queued. One goroutine delivers at a time, so that
// the order is that of the changes; what others queue meanwhile, it delivers too.
func (b *breaker) deliver() {
	if b.hook == nil {
		return
	}
	b.mu.Lock()
	if b.delivering {
		b.mu.Unlock()
		return
	}
	b.delivering = true
	defer func() { // also if the hook panics
		b.delivering = false
		b.mu.Unlock()
	}()
	for len(b.queue) > 0 {
		t := b.queue[0]
		b.queue = b.queue[1:]
		b.tell(t)
	}
}

// tell calls the hook with b.mu unlocked.
func (b *breaker) tell(t transition) {
	b.mu.Unlock()
	defer b.mu.Lock()
	b.hook(t.from, t.to, t.why)
}
