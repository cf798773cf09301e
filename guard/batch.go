package guard

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
)

// standInAll answers a batch that the store did not. What it has denied for certain stays denied. Those
// that are limited locally are one batch of the local store; it is charged only if nothing else is denied.
func (s *Store) standInAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision, why error) error {
	for i := range rs {
		if err := rs[i].Check(); err != nil {
			return err
		}
	}
	var denial sluice.DenialError
	if d := (*sluice.DenialError)(nil); errors.As(why, &d) {
		denial = *d
	}
	now := time.Now()
	by := make([]layer, len(rs))
	var locals []int
	allowed := true // all that is no shadow
	for i := range rs {
		if d, ok := denial.Denied[i]; ok {
			out[i], by[i], allowed = d, byStore, false
			continue
		}
		var isLocal bool
		if out[i], by[i], isLocal = s.standInOne(&rs[i], now); isLocal {
			locals = append(locals, i)
			continue
		}
		allowed = allowed && (out[i].Allowed || rs[i].Shadow)
	}
	if len(locals) > 0 {
		ok, err := s.localBatch(ctx, rs, out, locals, allowed)
		if err != nil {
			return localError(err, why)
		}
		allowed = allowed && ok
	}
	for i := range rs {
		switch {
		case !allowed && !rs[i].Shadow:
			out[i].Receipt = sluice.Receipt{} // nothing was charged
		case out[i].Allowed && takesLease(&rs[i]) && !rs[i].Peek && by[i] != byStore:
			s.leases.put(s.leases.id(rs[i].Limit, rs[i].Key, rs[i].Member), &rs[i], &out[i], by[i], now)
		}
	}
	return nil
}

// standInOne answers one request of a batch, unless it is to be limited locally. A lease
// that is held stays with who granted it.
func (s *Store) standInOne(r *sluice.Request, now time.Time) (d sluice.Decision, by layer, isLocal bool) {
	f := s.fallbackOf(r.Limit)
	if takesLease(r) {
		id := s.leases.id(r.Limit, r.Key, r.Member)
		if held, ok := s.leases.get(id, now); ok {
			switch held.by {
			case byStore:
				return s.hold(id, r, held, now), byStore, false
			case byLocal:
				f = Local
			default:
				f = Allow
			}
		}
	}
	switch f {
	case Local:
		return d, byLocal, true
	case Allow:
		return s.allow(r), byNobody, false
	default:
		return s.deny(r), byStore, false
	}
}

// localBatch decides those requests of a batch that are limited locally. Without
// charge nothing is taken but by shadows, which are decided on their own.
func (s *Store) localBatch(ctx context.Context, rs []sluice.Request, out []sluice.Decision, locals []int, charge bool) (allowed bool, err error) {
	qs, ds := make([]sluice.Request, len(locals)), make([]sluice.Decision, len(locals))
	for j, i := range locals {
		qs[j] = s.local(&rs[i])
		qs[j].Peek = qs[j].Peek || !charge && !qs[j].Shadow
	}
	if err := s.o.Local.DecideAll(ctx, qs, ds); err != nil {
		return false, err
	}
	allowed = true
	for j, i := range locals {
		d := &ds[j]
		s.fromLocal(&rs[i], d)
		if d.Allowed {
			d.Receipt = mark(d.Receipt, byLocal)
		} else if !rs[i].Shadow {
			allowed = false
		}
		out[i] = *d
	}
	return allowed, nil
}
