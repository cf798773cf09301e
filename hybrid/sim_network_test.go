package hybrid

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/internal/granttest"
)

// weather is what a network does to the calls of a process. Probabilities are between 0 and 1.
type weather struct {
	lostBefore, lostAfter float64 // a call is lost before, or after, the server handles it
	refused               float64 // a call fails, and its sender gets an error that is certain
	twice                 float64 // a call is handled again later
	slow                  float64 // a call takes up to 2 s, so that later ones overtake it
	trip                  time.Duration
}

// link is the connection of one process with the server.
type link struct {
	server *granttest.Server
	log    *world
	node   int
	trick  trick

	mu       sync.Mutex
	chance   *rand.Rand
	weather  weather
	deaf     time.Time // until then, answers are lost
	mute     time.Time // until then, calls are lost
	paused   time.Time // until then, the process does nothing
	dead     bool      // the process has crashed
	attempts map[uint64]uint64
	sent     map[uint64]driver.Claim
	handled  map[uint64]time.Duration // claims by their number: until when the answer is kept

	claims, empty, decisions, retries int
	answered                          time.Time
}

var _ driver.Grantor = (*link)(nil)

// fate is what happens to one call.
type fate struct {
	refused, lostBefore, lostAfter bool
	there, back                    time.Duration
	again                          time.Duration // when it is handled again; 0: never
}

// fate makes up the fate of a call.
func (l *link) fate() fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, c := l.weather, l.chance
	way := func() time.Duration {
		d := time.Duration(float64(w.trip) / 2 * (0.5 + c.ExpFloat64()))
		if c.Float64() < w.slow {
			d += time.Duration(c.Int64N(int64(2 * time.Second)))
		}
		return d + time.Duration(c.IntN(1000))
	}
	now := time.Now()
	f := fate{
		refused: c.Float64() < w.refused, lostBefore: c.Float64() < w.lostBefore, lostAfter: c.Float64() < w.lostAfter,
		there: way(), back: way(),
	}
	if c.Float64() < w.twice {
		f.again = 1 + time.Duration(c.Int64N(int64(4*time.Second)))
	}
	f.lostBefore = f.lostBefore || now.Before(l.mute) || l.dead
	f.lostAfter = f.lostAfter || now.Before(l.deaf)
	return f
}

var errRefused = errors.New("the connection was refused")

// call runs a call as the network lets it. The server may handle it after its sender has left.
func (l *link) call(ctx context.Context, handle func(again bool)) error {
	f := l.fate()
	if f.refused {
		return errRefused
	}
	answered := make(chan struct{})
	go func() {
		pass(f.there)
		if !f.lostBefore {
			handle(false)
			if f.again > 0 {
				go func() {
					pass(f.again)
					handle(true)
				}()
			}
			if !f.lostAfter {
				pass(f.back)
				close(answered)
			}
		}
	}()
	unknown := func(err error) error { return fmt.Errorf("%w: %w", sluice.ErrUnknownOutcome, err) }
	select {
	case <-answered:
		l.awaken()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.dead {
			return unknown(errors.New("the process has crashed"))
		}
		l.answered = time.Now()
		return nil
	case <-ctx.Done():
		l.awaken()
		return unknown(ctx.Err())
	}
}

// awaken waits for the end of a pause of the process.
func (l *link) awaken() {
	for {
		l.mu.Lock()
		d := time.Until(l.paused)
		l.mu.Unlock()
		if d <= 0 {
			return
		}
		pass(d)
	}
}

// set changes the link.
func (l *link) set(f func(l *link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

// Grant implements driver.Grantor.
func (l *link) Grant(ctx context.Context, holder uint64, claims []driver.Claim, out []driver.Grant) {
	l.awaken()
	began := time.Now()
	sent := make([]driver.Claim, len(claims))
	l.mu.Lock()
	for i, c := range claims {
		l.check(c)
		sent[i] = l.trick.claim(l, c)
	}
	l.claims += len(claims)
	l.mu.Unlock()
	for i := range sent {
		l.log.add(event{node: l.node, what: sends, claim: sent[i]})
	}
	var grants []driver.Grant
	var lock sync.Mutex
	err := l.call(ctx, func(again bool) {
		got := make([]driver.Grant, len(sent))
		for i := range sent {
			l.handle(ctx, holder, claims[i].Seq, sent[i], &got[i])
		}
		for i := range got {
			l.log.add(event{node: l.node, what: handles, claim: sent[i], grant: got[i], again: again})
		}
		lock.Lock()
		defer lock.Unlock()
		if !again {
			grants = got
		}
	})
	lock.Lock()
	defer lock.Unlock()
	for i := range out {
		if err != nil {
			out[i] = driver.Grant{Err: err}
		} else {
			out[i] = l.trick.grant(grants[i], time.Since(began))
			if out[i].Units == 0 && claims[i].Take == 0 {
				l.set(func(l *link) { l.empty++ })
			}
		}
		l.log.add(event{node: l.node, what: receives, claim: claims[i], grant: out[i], err: err})
	}
}

// handle lets the server handle one claim. A claim that it has answered charges nothing more.
func (l *link) handle(ctx context.Context, holder, seq uint64, c driver.Claim, g *driver.Grant) {
	before := l.log.given(c.Key)
	var got [1]driver.Grant
	l.server.Grant(ctx, holder, []driver.Claim{c}, got[:])
	*g = got[0]
	more := l.log.given(c.Key) - before
	l.mu.Lock()
	defer l.mu.Unlock()
	if till, found := l.handled[seq]; found && l.log.elapsed() < till && more > 0 && !l.log.excused() {
		l.log.fail("process %d: claim %d gets %d units more as it is repeated", l.node, seq, more)
	}
	if !g.Stale {
		if c.Birth == 0 {
			l.log.booked(c.Key, c.Spent)
		}
		l.handled[seq] = l.log.elapsed() + time.Duration(g.Till-g.Now)*time.Microsecond*49/50
	}
}

// check notes a claim, and fails if one with the same number had another content.
func (l *link) check(c driver.Claim) {
	if before, found := l.sent[c.Seq]; !found {
		l.sent[c.Seq] = c
	} else if l.retries++; before != c {
		l.log.fail("process %d repeats claim %d with other content:\n%+v\n%+v", l.node, c.Seq, before, c)
	}
}

// Decide implements sluice.Store.
func (l *link) Decide(ctx context.Context, r sluice.Request) (d sluice.Decision, err error) {
	l.awaken()
	l.set(func(l *link) { l.decisions++ })
	var lock sync.Mutex
	var got sluice.Decision
	err = l.call(ctx, func(again bool) {
		if again {
			return // no client sends a decision twice
		}
		lock.Lock()
		defer lock.Unlock()
		got, _ = l.server.Decide(ctx, r)
		what := refuses
		if got.Allowed {
			what = decides
		}
		l.log.add(event{node: l.node, what: what, units: r.Cost})
	})
	if err != nil {
		return d, err
	}
	lock.Lock()
	defer lock.Unlock()
	return got, nil
}

// DecideAll implements sluice.Store.
func (l *link) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	l.awaken()
	l.set(func(l *link) { l.decisions++ })
	got := make([]sluice.Decision, len(rs))
	var lock sync.Mutex
	var failure error
	if err := l.call(ctx, func(again bool) {
		if again {
			return
		}
		lock.Lock()
		defer lock.Unlock()
		failure = l.server.DecideAll(ctx, rs, got)
	}); err != nil {
		return err
	}
	lock.Lock()
	defer lock.Unlock()
	if failure != nil {
		return failure
	}
	copy(out, got)
	return nil
}

// Cancel implements sluice.Store.
func (l *link) Cancel(ctx context.Context, c sluice.Charge) error { return l.server.Cancel(ctx, c) }

// Settle implements sluice.Store.
func (l *link) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	return l.server.Settle(ctx, c, actual)
}

// Release implements sluice.Store.
func (l *link) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	return l.server.Release(ctx, c, latency)
}

// Reset implements sluice.Store.
func (l *link) Reset(ctx context.Context, limit *sluice.Limit, k sluice.Key) error {
	return l.call(ctx, func(again bool) {
		l.log.reset(k)
		if err := l.server.Reset(ctx, limit, k); err != nil {
			l.log.fail("the reset: %v", err)
		}
		l.log.add(event{node: l.node, what: resets})
	})
}
