package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sluicehq/sluice"
)

const (
	// mostAgain bounds how many requests have leases that are to be ended later. Those of others end by themselves.
	mostAgain = 1 << 14
	// Pauses between attempts grow, and differ by as much as half of them, so that a store that
	// comes back is not asked about all at once.
	firstAgain = 250 * time.Millisecond
	lastAgain  = 4 * time.Second
)

// ending ends a lease.
type ending func(context.Context, sluice.Charge) error

// again is leases that could not be ended, and are ended later: a store that does not answer
// for a second would otherwise take what has ended in it for in flight as long as leases live.
// It keeps nothing of the request.
type again struct {
	gate    *Gate
	charges []sluice.Charge
	one     ending
	until   time.Time // when they have ended by themselves
	pause   time.Duration
}

// mayEndLater reports whether what failed with an error may succeed later.
func mayEndLater(err error) bool {
	var invalid *sluice.RequestError
	return err != nil && !errors.Is(err, sluice.ErrLeaseLost) && !errors.Is(err, sluice.ErrUnsupported) && !errors.As(err, &invalid)
}

// endLater takes leases to be ended later.
func (g *Gate) endLater(charges []sluice.Charge, one ending) {
	if g.again.Add(1) > mostAgain {
		g.again.Add(-1)
		return
	}
	a := &again{gate: g, charges: charges, one: one, pause: firstAgain}
	var lives time.Duration
	for i := range charges {
		lives = max(lives, charges[i].Limit.LeaseTTL())
	}
	a.until = time.Now().Add(lives)
	a.later()
}

func (a *again) later() { time.AfterFunc(a.pause/2+rand.N(a.pause), a.attempt) }

// attempt tries all once more.
func (a *again) attempt() {
	var failed []sluice.Charge
	for _, c := range a.charges {
		if mayEndLater(a.one(context.Background(), c)) {
			failed = append(failed, c)
			continue
		}
		a.gate.lines.freed(lineKey{c.Limit.Name(), c.Key})
	}
	if len(failed) == 0 || !time.Now().Before(a.until) {
		a.gate.again.Add(-1)
		return
	}
	a.charges, a.pause = failed, min(2*a.pause, lastAgain)
	a.later()
}
