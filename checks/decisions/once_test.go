package decisions

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/checks/adapters"
	"github.com/sluicehq/sluice/checks/redistest"
	"github.com/sluicehq/sluice/guard"
	"github.com/sluicehq/sluice/redisstore"
)

// A lossy is a server that is reached directly, and by way of a proxy that cuts replies.
type lossy struct {
	*testing.T
	server  *redistest.Server
	proxy   *redistest.Proxy
	direct  *redisstore.Store
	through *redisstore.Store
	keys    int
}

func newLossy(t *testing.T, a adapters.Adapter) *lossy {
	t.Helper()
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr())
	return &lossy{
		T: t, server: s, proxy: p,
		direct:  a.Open(t, adapters.To(s.Addr()), redisstore.Options{}),
		through: a.Open(t, adapters.To(p.Addr()), redisstore.Options{}),
	}
}

// key returns a key that no request has used.
func (l *lossy) key() sluice.Key {
	l.keys++
	return sluice.StringKey(fmt.Sprint("key ", l.keys))
}

// lost makes a call whose reply is cut after n bytes, and wants the error of an unknown
// outcome. A client that repeats the call has time to: another call on the same way follows,
// and the server counts its calls.
func (l *lossy) lost(n int, call func(ctx context.Context, s sluice.Store) error) {
	l.Helper()
	before := l.calls()
	if err := l.proxy.Cut("evalsha", n); err != nil {
		l.Fatal(err)
	}
	err := call(redistest.Within(l, redistest.Soon), l.through)
	if !errors.Is(err, sluice.ErrUnknownOutcome) {
		l.Errorf("cut after %d bytes: %v; want one that wraps ErrUnknownOutcome", n, err)
	}
	if err := l.proxy.Pass(); err != nil {
		l.Fatal(err)
	}
	l.follow()
	if got := l.calls() - before; got != 2 {
		l.Errorf("cut after %d bytes: the server ran %d scripts for one call and the next call", n, got)
	}
}

// follow makes a call that works.
func (l *lossy) follow() {
	l.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		_, err := l.through.Decide(redistest.Within(l, redistest.Soon), sluice.Request{Limit: onceBucket, Key: sluice.StringKey("other"), Cost: 1})
		if err == nil {
			return
		}
		if !errors.Is(err, redisstore.ErrNotSent) {
			l.Fatal(err)
		}
		<-tick.C
	}
	l.Fatal("no call succeeds any more")
}

// calls returns how many scripts the server has run.
func (l *lossy) calls() int64 {
	l.Helper()
	all, err := l.server.CommandStats(redistest.Within(l, redistest.Soon))
	if err != nil {
		l.Fatal(err)
	}
	return all["evalsha"].Calls + all["eval"].Calls
}

// used returns how many units of a key are taken.
func (l *lossy) used(limit *sluice.Limit, k sluice.Key) int64 {
	l.Helper()
	d, err := l.direct.Decide(redistest.Within(l, redistest.Soon), sluice.Request{Limit: limit, Key: k, Peek: true})
	if err != nil {
		l.Fatal(err)
	}
	return limit.Capacity() - d.Remaining
}

func (l *lossy) wantUsed(what string, limit *sluice.Limit, k sluice.Key, want int64) {
	l.Helper()
	if got := l.used(limit, k); got != want {
		l.Errorf("%s of %v: %d units are taken, want %d", what, limit, got, want)
	}
}

// charge takes units directly.
func (l *lossy) charge(limit *sluice.Limit, k sluice.Key, cost int64) sluice.Charge {
	l.Helper()
	r := sluice.Request{Limit: limit, Key: k, Cost: cost, Member: uint64(l.keys)<<8 + 1}
	d, err := l.direct.Decide(redistest.Within(l, redistest.Soon), r)
	if err != nil || !d.Allowed {
		l.Fatalf("a direct charge should be allowed: %+v, %v", d, err)
	}
	return r.Charge(&d)
}

var (
	onceBucket = sluice.MustLimit("once bucket", sluice.TokenBucket{Rate: sluice.PerDay(1), Burst: 1000})
	onceLease  = sluice.MustLimit("once lease", sluice.Concurrency{Max: 1000, TTL: time.Hour})
	onceLimits = []*sluice.Limit{
		onceBucket,
		sluice.MustLimit("once window", sluice.FixedWindow{Rate: sluice.PerDay(1000), Opened: true}),
		sluice.MustLimit("once cells", sluice.SlidingWindow{Rate: sluice.PerDay(1000)}),
		sluice.MustLimit("once counter", sluice.SlidingCounter{Rate: sluice.PerDay(1000)}),
		sluice.MustLimit("once log", sluice.SlidingLog{Rate: sluice.PerDay(1000)}),
	}
)

// TestLostReplies cuts replies after the server has run a script: it runs once, never again,
// and the caller gets the error of an unknown outcome.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		l := newLossy(t, a)
		// Scripts are there, so that a call takes one request.
		for _, limit := range append([]*sluice.Limit{onceLease}, onceLimits...) {
			l.teach(limit)
		}
		for _, n := range []int{0, 1, 4, 9} { // nothing, half a line, half a reply
			for _, limit := range onceLimits {
				l.loseDecide(n, limit)
				l.loseEnds(n, limit)
			}
			l.loseBatch(n)
			l.loseLease(n)
		}
	})
}

// teach lets the server know the scripts of a limit.
func (l *lossy) teach(limit *sluice.Limit) {
	l.Helper()
	k := l.key()
	ctx := redistest.Within(l, redistest.Soon)
	c := l.charge(limit, k, 1)
	if err := l.direct.Cancel(ctx, c); err != nil && !errors.Is(err, sluice.ErrActed) {
		l.Fatal(err)
	}
	out := make([]sluice.Decision, len(onceLimits))
	if err := l.direct.DecideAll(ctx, onceRequests(k), out); err != nil {
		l.Fatal(err)
	}
	l.follow()
}

// onceRequests is a batch of all limits.
func onceRequests(k sluice.Key) []sluice.Request {
	rs := make([]sluice.Request, len(onceLimits))
	for i := range rs {
		rs[i] = sluice.Request{Limit: onceLimits[i], Key: k, Cost: int64(i) + 1}
	}
	return rs
}

func (l *lossy) loseDecide(n int, limit *sluice.Limit) {
	l.Helper()
	k := l.key()
	l.lost(n, func(ctx context.Context, s sluice.Store) error {
		_, err := s.Decide(ctx, sluice.Request{Limit: limit, Key: k, Cost: 3})
		return err
	})
	l.wantUsed("a decision", limit, k, 3)
}

func (l *lossy) loseEnds(n int, limit *sluice.Limit) {
	l.Helper()
	k := l.key()
	c := l.charge(limit, k, 5)
	l.lost(n, func(ctx context.Context, s sluice.Store) error { return s.Settle(ctx, c, 12) })
	l.wantUsed("what was settled", limit, k, 12)

	k = l.key()
	c = l.charge(limit, k, 5)
	l.lost(n, func(ctx context.Context, s sluice.Store) error { return s.Settle(ctx, c, 2) })
	l.wantUsed("what was settled", limit, k, 2)

	// What a cancellation gives back depends on the algorithm; it gives it once.
	k, twin := l.key(), l.key()
	c, control := l.charge(limit, k, 5), l.charge(limit, twin, 5)
	l.charge(limit, k, 20)
	l.charge(limit, twin, 20)
	if err := l.direct.Cancel(redistest.Within(l, redistest.Soon), control); err != nil && !errors.Is(err, sluice.ErrActed) {
		l.Fatal(err)
	}
	want := l.used(limit, twin)
	l.lost(n, func(ctx context.Context, s sluice.Store) error { return s.Cancel(ctx, c) })
	l.wantUsed("what was cancelled", limit, k, want)
}

func (l *lossy) loseBatch(n int) {
	l.Helper()
	k := l.key()
	l.lost(n, func(ctx context.Context, s sluice.Store) error {
		return s.DecideAll(ctx, onceRequests(k), make([]sluice.Decision, len(onceLimits)))
	})
	for i, limit := range onceLimits {
		l.wantUsed("a batch", limit, k, int64(i)+1)
	}
}

func (l *lossy) loseLease(n int) {
	l.Helper()
	k := l.key()
	c := l.charge(onceLease, k, 1)
	l.keys++ // for another member
	l.charge(onceLease, k, 1)
	l.lost(n, func(ctx context.Context, s sluice.Store) error { return s.Release(ctx, c, time.Millisecond) })
	l.wantUsed("what was released", onceLease, k, 1)
	if err := l.direct.Release(redistest.Within(l, redistest.Soon), c, 0); !errors.Is(err, sluice.ErrLeaseLost) {
		l.Errorf("a lease that was released is released again: %v", err)
	}
}

// TestLostReplyThroughGuard: the ladder answers in place of a reply that was lost, and
// the server has charged once.
func TestLostReplyThroughGuard(t *testing.T) {
	t.Parallel()
	adapters.Each(t, func(t *testing.T, a adapters.Adapter) {
		l := newLossy(t, a)
		for _, limit := range onceLimits {
			l.teach(limit)
		}
		g, err := guard.New(guard.Options{Store: l.through, Deadline: redistest.Soon, Default: sluice.FallbackAllow})
		if err != nil {
			t.Fatal(err)
		}
		k := l.key()
		if err := l.proxy.Cut("evalsha", 3); err != nil {
			t.Fatal(err)
		}
		d, err := g.Decide(t.Context(), sluice.Request{Limit: onceBucket, Key: k, Cost: 7})
		if err != nil || !d.Allowed || !d.Degraded {
			t.Errorf("a decision whose reply was lost: %+v, %v", d, err)
		}
		l.wantUsed("a decision", onceBucket, k, 7)
		c := l.charge(onceBucket, k, 10)
		err = g.Settle(t.Context(), c, 1)
		if !errors.Is(err, sluice.ErrUnknownOutcome) {
			t.Errorf("a settlement whose reply was lost: %v", err)
		}
		l.wantUsed("what was settled", onceBucket, k, 8)
	})
}
