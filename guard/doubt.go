package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sluicehq/sluice"
)

const (
	// mostDoubts bounds how many leases are in doubt. Those beyond end by themselves.
	mostDoubts = 1 << 14
	// firstDoubt is after how long a lease in doubt is ended, by when what was on its way to the store has arrived.
	// Pauses between attempts grow, and differ by half, so that a store that comes back is not asked all at once.
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
	until  time.Time // when it has ended by itself
	pause  time.Duration
}

// doubt takes in what came of a question for a lease that nobody held. If there are too many to remember, it
// may be one that is held, and is left to its time to live.
func (s *Store) doubt(r *sluice.Request, err error) {
	if r.Peek || !takesLease(r) || !errors.Is(err, sluice.ErrUnknownOutcome) || s.leases.full() {
		return
	}
	if s.doubts.Add(1) > mostDoubts {
		s.doubts.Add(-1)
		return
	}
	d := &doubt{
		store: s, id: s.leases.id(r.Limit, r.Key, r.Member), charge: r.Charge(&sluice.Decision{}),
		until: time.Now().Add(r.Limit.LeaseTTL()), pause: firstDoubt,
	}
	d.later()
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

func (d *doubt) later() { time.AfterFunc(d.pause/2+rand.N(d.pause), d.settle) }

// settle ends the lease, unless it was asked for again and granted.
func (d *doubt) settle() {
	now := time.Now()
	if held, ok := d.store.leases.get(d.id, now); ok && held.by != byStore || !ok && !d.store.leases.full() {
		err := d.store.end(context.Background(), cancelCharge, &d.charge, 0, 0)
		if err != nil && !isAnswer(err) && now.Before(d.until) {
			d.pause = min(2*d.pause, lastDoubt)
			d.later()
			return
		}
	}
	d.store.doubts.Add(-1)
}
