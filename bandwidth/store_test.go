package bandwidth_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
	"github.com/sluicehq/sluice/guard"
)

// failing is a store that does not decide, or refuses.
type failing struct {
	sluice.Store
	answer sluice.Decision
	err    error
	calls  int
	// opens is when it lets pass.
	opens time.Time
}

func (s *failing) Decide(context.Context, sluice.Request) (sluice.Decision, error) {
	s.calls++
	if !s.opens.IsZero() && !time.Now().Before(s.opens) {
		return sluice.Decision{Allowed: true}, nil
	}
	return s.answer, s.err
}

func (*failing) Settle(context.Context, sluice.Charge, int64) error { return nil }

// TestPacingWhileTheStoreFails fails what the store does not decide, or lets it pass.
func TestPacingWhileTheStoreFails(t *testing.T) {
	down := errors.New("the store is down")
	for name, make := range movers {
		s := &failing{err: down}
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		if _, err := make(t.Context(), 1*kB, l.Flow(key))(); !errors.Is(err, down) {
			t.Errorf("%s: the error is %v, want the error of the store", name, err)
		}
		calls := 0
		l = limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB), OnStoreError: func(_ context.Context, err error) error {
			if !errors.Is(err, down) {
				t.Errorf("%s: the error is %v", name, err)
			}
			calls++
			return nil
		}})
		move := make(t.Context(), 1*kB, l.Flow(key))
		for range 3 {
			if n, err := move(); n != 1*kB || err != nil {
				t.Errorf("%s: moved %d bytes, want all: %v", name, n, err)
			}
		}
		if calls != 3 {
			t.Errorf("%s: %d calls", name, calls)
		}
		s.err, s.answer = nil, sluice.Decision{Reason: sluice.ReasonTableFull}
		l = limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		var refused *bandwidth.RefusedError
		if _, err := make(t.Context(), 1*kB, l.Flow(key))(); !errors.As(err, &refused) || refused.Reason != sluice.ReasonTableFull {
			t.Errorf("%s: a full table should refuse: %v", name, err)
		}
	}
}

// TestPacesByTheFallback paces by the fallback of a store that is down: at the share of this process,
// which holds less than a chunk, or not at all.
func TestPacesByTheFallback(t *testing.T) {
	down := &failing{err: errors.New("the store is down")}
	rate := sluice.PerSecond(1 * mB)
	for name, make := range movers {
		synctest.Test(t, func(t *testing.T) {
			s, err := guard.New(guard.Options{Store: down, Inline: true, Local: store(t), Share: sluice.Share{Of: 1, Parts: 4}})
			if err != nil {
				t.Fatal(err)
			}
			seen := newTrace()
			move := make(t.Context(), 8*kB, limiter(t, bandwidth.Options{Store: s, Rate: rate}).Flow(key))
			for time.Since(seen.began) < 2*time.Second {
				n, err := move()
				if err != nil {
					t.Fatal(err)
				}
				seen.add(n)
			}
			if got, want := float64(seen.sum), in(rate, time.Since(seen.began))/4; got < 0.98*want || got > 1.02*want {
				t.Errorf("%s: %.0f bytes; a fourth of the rate gives %.0f", name, got, want)
			}
		})
		s, err := guard.New(guard.Options{Store: down, Inline: true, Local: store(t), Fallback: func(*sluice.Limit) sluice.Fallback { return sluice.FallbackDeny }})
		if err != nil {
			t.Fatal(err)
		}
		var refused *bandwidth.RefusedError
		_, err = make(t.Context(), 8*kB, limiter(t, bandwidth.Options{Store: s, Rate: rate}).Flow(key))()
		if !errors.As(err, &refused) || refused.Reason != sluice.ReasonStoreError {
			t.Errorf("%s: the fallback should refuse: %v", name, err)
		}
	}
}

// TestRefusedForNow tries again after the store's RetryAfter.
func TestRefusedForNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &failing{
			answer: sluice.Decision{Reason: sluice.ReasonLimited, RetryAfter: time.Second},
			opens:  time.Now().Add(2500 * time.Millisecond),
		}
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(1 * mB)})
		began := time.Now()
		if n, err := bandwidth.NewWriter(t.Context(), io.Discard, l.Flow(key)).Write(buffer(9)); n != 9 || err != nil {
			t.Errorf("wrote %d bytes after the wait, want 9: %v", n, err)
		}
		if d := time.Since(began); d != 3*time.Second || s.calls != 4 {
			t.Errorf("it took %v and %d calls", d, s.calls)
		}
	})
}

// TestCallsSeldom counts the calls of the store: one a chunk.
func TestCallsSeldom(t *testing.T) {
	for name, make := range movers {
		s := &failing{answer: sluice.Decision{Allowed: true}}
		l := limiter(t, bandwidth.Options{Store: s, Rate: sluice.PerSecond(100 * mB)})
		move := make(t.Context(), 1000, l.Flow(key))
		for range 10_000 {
			if _, err := move(); err != nil {
				t.Fatal(err)
			}
		}
		// 10 MB, and 2 MB a chunk; the first pays for itself. A test that is held up calls once more.
		if s.calls < 6 || s.calls > 15 {
			t.Errorf("%s: %d calls", name, s.calls)
		}
	}
}
