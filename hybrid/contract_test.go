package hybrid_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/storetest"
)

// A hybrid store is exact about cold keys: it is the store that it wraps.
func TestHybridKeepsTheContract(t *testing.T) { runContract(t, storetest.TimeGoesBack()) }

// TestHybridKeepsTheContractConcurrently is the part of the contract in which the race detector can find something.
func TestHybridKeepsTheContractConcurrently(t *testing.T) { runContract(t, storetest.Concurrent()) }

func runContract(t *testing.T, part storetest.Option) {
	t.Helper()
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) sluice.Store {
		t.Helper()
		m, err := memory.New(memory.Options{MaxBytes: 4 << 20, Clock: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		s := open(t, &cold{Store: m, t: t}, hybrid.Options{})
		hybrid.StayCold(s)
		return &termed{Store: s}
	}, storetest.Attempts(300), storetest.Percent(20), storetest.Holds(), part)
}

// cold is a store that must not be claimed from.
type cold struct {
	*memory.Store
	t *testing.T
}

func (c *cold) Grant(_ context.Context, _ uint64, claims []driver.Claim, _ []driver.Grant) {
	c.t.Errorf("%d claims of cold keys", len(claims))
}

// termed gives all limits hybrid terms that can have them.
type termed struct {
	*hybrid.Store
	limits sync.Map // *sluice.Limit to *sluice.Limit
}

func (s *termed) limit(l *sluice.Limit) *sluice.Limit {
	if l == nil {
		return nil
	}
	if h, ok := s.limits.Load(l); ok {
		return h.(*sluice.Limit)
	}
	h, err := l.WithHybrid(sluice.Hybrid{Stranded: 1})
	if err != nil {
		h = l
	}
	s.limits.Store(l, h)
	return h
}

func (s *termed) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	r.Limit = s.limit(r.Limit)
	return s.Store.Decide(ctx, r)
}

func (s *termed) Take(ctx context.Context, l *sluice.Limit, k sluice.Key, n int64) (sluice.Decision, error) {
	return s.Store.Take(ctx, s.limit(l), k, n)
}

func (s *termed) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	rs = append([]sluice.Request(nil), rs...)
	for i := range rs {
		rs[i].Limit = s.limit(rs[i].Limit)
	}
	return s.Store.DecideAll(ctx, rs, out)
}

func (s *termed) Cancel(ctx context.Context, c sluice.Charge) error {
	c.Limit = s.limit(c.Limit)
	return s.Store.Cancel(ctx, c)
}

func (s *termed) Settle(ctx context.Context, c sluice.Charge, actual int64) error {
	c.Limit = s.limit(c.Limit)
	return s.Store.Settle(ctx, c, actual)
}

func (s *termed) Release(ctx context.Context, c sluice.Charge, latency time.Duration) error {
	c.Limit = s.limit(c.Limit)
	return s.Store.Release(ctx, c, latency)
}

func (s *termed) Reset(ctx context.Context, l *sluice.Limit, k sluice.Key) error {
	return s.Store.Reset(ctx, s.limit(l), k)
}

func (s *termed) BanKey(ctx context.Context, l *sluice.Limit, k sluice.Key, d time.Duration) error {
	return s.Store.BanKey(ctx, s.limit(l), k, d)
}

func (s *termed) LiftBan(ctx context.Context, l *sluice.Limit, k sluice.Key) (bool, error) {
	return s.Store.LiftBan(ctx, s.limit(l), k)
}
