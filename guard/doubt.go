package guard

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
)

const (
	// mostDoubts bounds how many leases are in doubt. Those beyond end by themselves.
	mostDoubts = 1 << 14
	// firstDoubt is after how long a lease in doubt is ended, by when what was on its way to the store has arrived.
	firstDoubt = time.Second
	lastDoubt  = 2 * time.Second
)

// doubt is a lease that the store may have granted to somebody who does not know, since the answer came too
// late or never: it is ended, or a store that was slow for a moment would take it for one in flight as long as
// it lives.
type doubt struct {
	store  *Store
	id     leaseID
	charge sluice.Charge
}

// doubt takes in what came of a question for a lease that nobody held. If there are too many to remember, it
// may be one that is held, and is left to its time to live.
func (s *Store) doubt(r *sluice.Request, err error) {
	if r.Peek || !takesLease(r) || !errors.Is(err, sluice.ErrUnknownOutcome) || s.leases.full() {
		return
	}
	d := &doubt{store: s, id: s.leases.id(r.Limit, r.Key, r.Member), charge: r.Charge(&sluice.Decision{})}
	until := time.Now().Add(r.Limit.LeaseTTL()) // it has ended by itself then
	s.doubts.Start(until, d.settle)
}

// doubtAll takes in what came of a batch. Leases that are held were asked for before.
func (s *Store) doubtAll(rs []sluice.Request, err error) {
	if !errors.Is(err, sluice.ErrUnknownOutcome) {
		return
	}
	now := time.Now()
	for i := range rs {
		r := &rs[i]
		if !takesLease(r) {
			continue
		}
		if _, held := s.leases.get(s.leases.id(r.Limit, r.Key, r.Member), now); !held {
			s.doubt(r, err)
		}
	}
}

// settle ends the lease, unless it was asked for again and granted. It reports whether nothing is left to do.
func (d *doubt) settle() (done bool) {
	if held, ok := d.store.leases.get(d.id, time.Now()); ok && held.by != byStore || !ok && !d.store.leases.full() {
		err := d.store.end(context.Background(), cancelCharge, &d.charge, 0, 0)
		return err == nil || isAnswer(err)
	}
	return true
}
