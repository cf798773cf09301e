package guard

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// split decides a batch if some of its shards are not called: fallbacks decide about the requests
// of these shards (away), and the store decides about all others. All are charged, or none.
//
// The fallbacks decide first, because a local charge can be given back without a call. If they
// deny, the store only looks at its requests: their denials do not count for bans then.
func (s *Store) split(ctx context.Context, c *call, rs []sluice.Request, out []sluice.Decision, away []bool, why error) error {
	b := splitBatch{store: s, rs: rs, out: out, away: away, by: make([]layer, len(rs)), now: time.Now()}
	if err := b.fallBack(ctx, why); err != nil {
		c.giveUp()
		c.leave()
		return err
	}
	part, positions := b.rest()
	c.requests = append(c.requests[:0], part...) // a call that is left behind still uses them
	c.decisions = append(c.decisions[:0], make([]sluice.Decision, len(part))...)
	down, err := s.make(ctx, c)
	s.doubtAll(part, err)
	if err != nil {
		b.giveBack(ctx)
		if down {
			return s.fallBackAll(ctx, rs, out, inBatch(err, positions))
		}
		return err
	}
	for j, i := range positions {
		out[i] = c.decisions[j]
		if part[j].Peek && !rs[i].Peek {
			out[i].Receipt = sluice.Receipt{}
		}
	}
	s.rememberAll(ctx, part, c.decisions)
	b.finish(ctx)
	return nil
}

// splitBatch is a batch that fallbacks and the store decide together.
type splitBatch struct {
	store   *Store
	rs      []sluice.Request
	out     []sluice.Decision
	away    []bool
	by      []layer // of the decisions about requests that are away
	locals  []int   // the requests that the local store decides
	renewed []int   // the local requests that renew a lease
	allowed bool    // the fallbacks allow all requests but shadows
	now     time.Time
}

// fallBack lets the fallbacks decide.
func (b *splitBatch) fallBack(ctx context.Context, why error) error {
	s := b.store
	b.allowed = true
	for i := range b.rs {
		r := &b.rs[i]
		if err := r.Check(); err != nil {
			return err
		}
		if !b.away[i] {
			continue
		}
		var isLocal bool
		if b.out[i], b.by[i], isLocal = s.fallBackOne(r, b.now); !isLocal {
			b.allowed = b.allowed && (b.out[i].Allowed || r.Shadow)
			continue
		}
		b.locals = append(b.locals, i)
		if takesLease(r) {
			if _, held := s.leases.get(s.leases.id(r.Limit, r.Key, r.Member), b.now); held {
				b.renewed = append(b.renewed, i)
			}
		}
	}
	if len(b.locals) == 0 {
		return nil
	}
	ok, err := s.localBatch(ctx, b.rs, b.out, b.locals, b.allowed)
	if err != nil {
		return localError(err, why)
	}
	b.allowed = b.allowed && ok
	return nil
}

// rest returns the requests for the store, and their positions in the batch.
func (b *splitBatch) rest() (part []sluice.Request, positions []int) {
	for i := range b.rs {
		if b.away[i] {
			continue
		}
		r := b.rs[i]
		r.Peek = r.Peek || !b.allowed && !r.Shadow && !r.Debit
		part, positions = append(part, r), append(positions, i)
	}
	return part, positions
}

// finish completes the decisions when all have been made.
func (b *splitBatch) finish(ctx context.Context) {
	s := b.store
	allowed := b.allowed
	for i := range b.rs {
		allowed = allowed && (b.away[i] || b.out[i].Allowed || b.rs[i].Shadow)
	}
	if !allowed {
		b.giveBack(ctx)
	}
	for i := range b.rs {
		r := &b.rs[i]
		switch {
		case !b.away[i]:
		case !allowed && !r.Shadow && !r.Debit:
			b.out[i].Receipt = sluice.Receipt{} // nothing was charged
		case b.out[i].Allowed && takesLease(r) && !r.Peek && b.by[i] != byStore:
			s.leases.put(s.leases.id(r.Limit, r.Key, r.Member), r, &b.out[i], b.by[i], b.now)
		}
	}
}

// giveBack gives back what the local store has charged, except for shadows, debits, and leases that were
// held before. What later requests depend on stays charged: too little is admitted then, never too
// much.
func (b *splitBatch) giveBack(ctx context.Context) {
	if !b.allowed {
		return // nothing was charged
	}
	s := b.store
	for _, i := range slices.Backward(b.locals) {
		r := &b.rs[i]
		if r.Shadow || r.Debit || r.Peek || r.Cost == 0 || !b.out[i].Allowed || slices.Contains(b.renewed, i) {
			continue
		}
		c := r.Charge(&b.out[i])
		c.Receipt, _ = unmark(c.Receipt)
		s.localCharge(&c)
		if takesLease(r) {
			_ = s.o.Local.Cancel(ctx, c)
		} else {
			_ = s.o.Local.Settle(ctx, c, 0)
		}
	}
	b.allowed = false
}

// inBatch returns an error about a part of a batch with the positions in the whole batch.
func inBatch(err error, positions []int) error {
	var part *driver.DenialError
	if !errors.As(err, &part) {
		return err
	}
	whole := &driver.DenialError{Denied: make(map[int]sluice.Decision, len(part.Denied)), Err: err}
	for j, d := range part.Denied {
		whole.Denied[positions[j]] = d
	}
	return whole
}
