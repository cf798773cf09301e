package memory

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// Cancel gives back what a charge took. See sluice.Store.
// Errors are as in sluice.Store, and sluice.ErrClosed.
func (s *Store) Cancel(_ context.Context, c sluice.Charge) error {
	if err := translate.CheckCancel(&c); err != nil {
		return err
	}
	return s.end(&c, true, func(sp *stripe, v *version, e *entry, now int64, charge algo.Charge) error {
		if v.params.Inline() {
			e.state = v.params.CancelState(e.state, now, charge)
		} else {
			v.params.CancelWords(sp.words(e), now, charge)
		}
		return nil
	})
}

// Settle replaces the cost of a charge by the actual cost. See sluice.Store.
// Errors are as in sluice.Store, and sluice.ErrClosed.
func (s *Store) Settle(_ context.Context, c sluice.Charge, actual int64) error {
	if err := translate.CheckSettle(&c, actual); err != nil {
		return err
	}
	return s.end(&c, false, func(sp *stripe, v *version, e *entry, now int64, charge algo.Charge) error {
		if v.params.Inline() {
			e.state = v.params.SettleState(e.state, now, charge, actual)
			return nil
		}
		v.params.SettleWords(sp.words(e), now, charge, actual)
		return nil
	})
}

// Release ends a lease. See sluice.Store.
// Errors are as in sluice.Store, and sluice.ErrClosed.
func (s *Store) Release(_ context.Context, c sluice.Charge, latency time.Duration) error {
	if err := translate.CheckRelease(&c); err != nil {
		return err
	}
	lost := true
	err := s.end(&c, false, func(sp *stripe, v *version, e *entry, now int64, _ algo.Charge) error {
		lost = !v.params.Conc.Release(sp.words(e), now, c.Member, int64(latency/time.Microsecond))
		return nil
	})
	if err == nil && lost {
		return sluice.ErrLeaseLost
	}
	return err
}

// end finds the charged state, converts the charge to the version of this state, and calls f to
// change the state. If the state is gone, it was equal to a fresh one, and the charge no longer
// counts. Then f gets a fresh state, because a settlement may charge more. With unacted, end returns
// sluice.ErrActed after the moment at which the charge acts.
func (s *Store) end(c *sluice.Charge, unacted bool, f func(*stripe, *version, *entry, int64, algo.Charge) error) error {
	p, now, err := s.lock(c.Limit, c.Key)
	if err != nil {
		return err
	}
	defer p.stripe.unlock()
	charge := algo.Charge{Cost: c.Cost, Floor: c.Floor, At: c.Receipt.At, Over: c.Receipt.Over, Member: c.Member}
	if charge.At < 0 { // it was charged to the shared state
		charge.At = ^charge.At
		p = s.overflow(&p)
	}
	if translate.IsHold(charge.Over) {
		if unacted {
			return sluice.ErrActed
		}
		if !p.stripe.endHold(charge.Over, now) {
			charge = algo.Charge{At: now} // its cost is not charged any more
		}
		charge.Over = 0
	}
	if unacted && now > p.v.params.Acts(charge) {
		return sluice.ErrActed
	}
	e := p.stripe.lookup(&p)
	if e == nil {
		if e = p.stripe.add(&p, now, false); e == nil {
			return nil
		}
	}
	v := p.v
	switch {
	case e.version() == v.index:
	case p.stripe.fresh(e, now):
		// As if the state had already been forgotten.
		if !p.stripe.convert(v, e, now) {
			return nil
		}
	default:
		v = s.versions.at(e.version())
		charge = v.params.ConvertCharge(p.v.params, charge, now)
	}
	if !v.params.Inline() && !p.stripe.ensureBlock(v.params, e, now, false) && e.state.T == 0 {
		return nil
	}
	return f(p.stripe, v, e, now, charge)
}

// lock returns the location of a limit's key with its stripe locked, and the time.
func (s *Store) lock(l *sluice.Limit, k sluice.Key) (location, int64, error) {
	for {
		v := s.version(l)
		p := s.locate(v, k)
		if ok, err := s.lockAt(&p); ok || err != nil {
			return p, s.now(), err
		}
	}
}

// lockAt locks the stripe of a location. It returns false if the location's version was given up.
func (s *Store) lockAt(p *location) (bool, error) {
	p.stripe.lock()
	if p.stripe.closed {
		p.stripe.unlock()
		return false, sluice.ErrClosed
	}
	if p.v.retired.Load() {
		p.stripe.unlock()
		s.forget(p.v)
		return false, nil
	}
	return true, nil
}

// Reset forgets the state of a limit's key, and its ban. See sluice.Store.
// Errors are as in sluice.Store, and sluice.ErrClosed.
func (s *Store) Reset(_ context.Context, l *sluice.Limit, k sluice.Key) error {
	if l == nil {
		return &sluice.RequestError{Problem: "has no limit"}
	}
	p, _, err := s.lock(l, k)
	if err != nil {
		return err
	}
	defer p.stripe.unlock()
	p.stripe.remove(&p)
	p.stripe.dropHolds(&p)
	b := p.ban()
	p.stripe.remove(&b)
	return nil
}
