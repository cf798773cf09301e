package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/hybrid"
)

var errLost = fmt.Errorf("bank: connection reset: %w", sluice.ErrUnknownOutcome)

// meter checks the bound of a token bucket: no interval has more units than burst + rate × length.
type meter struct {
	mu     sync.Mutex
	level  float64 // of a bucket that is never refused
	burst  float64
	rate   float64 // per microsecond
	at     int64
	total  int64
	excess float64
}

func (m *meter) spend(now, units int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.level = min(m.burst, m.level+float64(now-m.at)*m.rate)
	m.at = now
	m.level -= float64(units)
	m.total += units
	m.excess = max(m.excess, -m.level)
}

func newMeter(l *sluice.Limit) *meter {
	return &meter{
		level: float64(l.Capacity()), burst: float64(l.Capacity()),
		rate: float64(l.Rate().Count()) / float64(l.Rate().Period()/time.Microsecond), at: time.Now().UnixMicro(),
	}
}

// TestBoundOverALossyNetwork: several processes never admit more than the limit, although calls are
// lost before and after the store has handled them, and take long.
func TestBoundOverALossyNetwork(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { lossy(t, seed) })
		})
	}
}

func lossy(t *testing.T, seed uint64) {
	chance := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return chance.IntN(n)
	}
	b := newBank(t)
	b.fault = func(ctx context.Context, _ []driver.Claim, handle func()) error {
		pass(time.Duration(roll(1000)) * time.Microsecond)
		switch roll(10) {
		case 0:
			return errLost // before
		case 1:
			handle()
			return errLost // after
		case 2:
			select { // very late
			case <-time.After(time.Duration(roll(4000)) * time.Millisecond):
				handle()
			case <-ctx.Done():
				go func() {
					pass(time.Duration(roll(3000)) * time.Millisecond)
					handle()
				}()
				return fmt.Errorf("%w: %w", ctx.Err(), sluice.ErrUnknownOutcome)
			}
		case 3:
			return errors.New("bank: refused")
		default:
			handle()
		}
		return nil
	}
	limit := bucket(int64(200+roll(3000)), int64(200+roll(3000)), sluice.Hybrid{Stranded: 0.3, Life: time.Second})
	m := newMeter(limit)
	const processes = 3
	var wg sync.WaitGroup
	var stores []*hybrid.Store
	end := time.Now().Add(10 * time.Second)
	for p := range processes {
		s := open(t, b, hybrid.Options{Holder: uint64(p + 1), Seed: seed + 1})
		stores = append(stores, s)
		for range 2 {
			wg.Go(func() {
				for time.Now().Before(end) {
					ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
					n := int64(1 + roll(3))
					d, err := s.Decide(ctx, sluice.Request{Limit: limit, Key: key, Cost: n})
					cancel()
					if err == nil && d.Allowed {
						m.spend(time.Now().UnixMicro(), n)
					}
					if roll(200) == 0 {
						pass(time.Duration(roll(1000)) * time.Millisecond)
					}
					pass(time.Duration(roll(2000)) * time.Microsecond)
				}
			})
		}
	}
	wg.Wait()
	for _, s := range stores {
		if err := hybrid.Check(s); err != nil {
			t.Error(err)
		}
	}
	b.mu.Lock()
	b.fault = nil
	b.mu.Unlock()
	pass(5 * time.Second) // for calls that are handled late
	most := float64(limit.Capacity()) + 10*float64(limit.Rate().Count())
	t.Logf("%d units of %.0f, excess %.1f", m.total, most, m.excess)
	if m.excess > 0.5 {
		t.Errorf("%v: %.1f units more than the bound", limit, m.excess)
	}
	if float64(m.total) < most/3 {
		t.Errorf("%v: only %d of %.0f units", limit, m.total, most)
	}
}
