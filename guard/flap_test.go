package guard_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/guard"
)

// While a store fails again and again, the units of the store and of the local share add up:
// together they admit up to the limit and the share of it, however often the store fails. The
// docs have these figures (docs/redis.md).
func TestFlapsAddTheShare(t *testing.T) {
	const rate, lasting = 400, 20
	for _, c := range []struct {
		name       string
		burst      int64
		down, each time.Duration
		least      int64 // admitted per second, or the test shows nothing
	}{
		{"rare", 400, 300 * time.Millisecond, 5 * time.Second, 401},
		{"frequent", 400, 300 * time.Millisecond, time.Second, 440},
		{"small burst", 40, 300 * time.Millisecond, time.Second, 280},
		{"always", 400, 300 * time.Millisecond, 310 * time.Millisecond, 75},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limit("flap", sluice.TokenBucket{Rate: sluice.PerSecond(rate), Burst: c.burst})
				h := build(t, guard.Options{Share: sluice.Share{Of: 1, Parts: 4}})
				admitted, began := int64(0), time.Now()
				for i := range 2000 * lasting {
					if now := time.Duration(i) * 500 * time.Microsecond; now%c.each < c.down {
						h.fake.set(broken)
					} else {
						h.fake.set(nil)
					}
					if h.take(l, 1).Allowed {
						admitted++
					}
					pass(500 * time.Microsecond)
				}
				took := time.Since(began).Seconds()
				most := int64((float64(c.burst) + rate*took) * 5 / 4)
				second := (float64(admitted) - float64(c.burst)*5/4) / took
				if admitted > most || int64(second) < c.least {
					t.Errorf("%d were admitted in %v s, %.0f a second; want up to %d, and %d a second", admitted, took, second, most, c.least)
				}
				t.Logf("%.0f a second, besides the bursts", second)
			})
		})
	}
}
