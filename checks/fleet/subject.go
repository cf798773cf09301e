package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
	"github.com/sluicehq/sluice/hybrid"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/redisstore"
	"github.com/sluicehq/sluice/rueidisstore"
)

// A Subject decides the requests of a process.
type Subject interface {
	// Take takes one unit for a load.
	Take(ctx context.Context, load int) (bool, error)
	// Drain returns all grants.
	Drain(ctx context.Context) error
	// Stats adds what the subject counts.
	Stats(s *Stats)
	Close() error
}

// New makes a subject.
type New func(*Spec) (Subject, error)

// newSubject makes the subject of a process. others are subjects that this package lacks.
func newSubject(s *Spec, others map[string]New) (Subject, error) {
	if other := others[s.Subject]; other != nil {
		return other(s)
	}
	if s.Subject == Naive {
		return newNaive(s)
	}
	d := &decider{}
	for _, load := range s.Loads {
		l, err := load.Terms.Limit()
		if err != nil {
			return nil, err
		}
		d.limits = append(d.limits, l)
		d.keys = append(d.keys, sluice.StringKey(load.Key))
	}
	if s.Subject == Memory {
		store, err := memory.New(memory.Options{})
		d.store, d.taker = store, store
		return d, err
	}
	store, err := rueidisstore.New(clientOptions(s.Route), redisstore.Options{})
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, store)
	d.store = store
	switch s.Subject {
	case Exact:
		return d, nil
	case Hybrid:
		d.hybrid, err = hybrid.New(store, hybrid.Options{})
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		d.closers = append([]io.Closer{d.hybrid}, d.closers...)
		d.store, d.taker = d.hybrid, d.hybrid
		return d, nil
	}
	return nil, errors.Join(fmt.Errorf("fleet: unknown subject %q", s.Subject), store.Close())
}

func clientOptions(r Route) rueidis.ClientOption {
	o := rueidis.ClientOption{InitAddress: r.Addrs, DisableCache: true}
	o.Sentinel.MasterSet = r.Master
	return o
}

// decider decides through a store.
type decider struct {
	store   sluice.Store
	taker   driver.Taker  // nil: the store has only Decide
	hybrid  *hybrid.Store // nil: another subject
	closers []io.Closer
	limits  []*sluice.Limit
	keys    []sluice.Key
}

func (d *decider) Take(ctx context.Context, load int) (bool, error) {
	var decision sluice.Decision
	var err error
	if d.taker != nil {
		decision, err = d.taker.Take(ctx, d.limits[load], d.keys[load], 1)
	} else {
		decision, err = d.store.Decide(ctx, sluice.Request{Limit: d.limits[load], Key: d.keys[load], Cost: 1})
	}
	return decision.Allowed, err
}

func (d *decider) Drain(ctx context.Context) error {
	if d.hybrid == nil {
		return nil
	}
	return d.hybrid.Drain(ctx)
}

func (d *decider) Stats(s *Stats) {
	if d.hybrid == nil {
		return
	}
	for _, l := range d.hybrid.Stats() {
		s.Local += int64(l.Local)
		s.Exact += int64(l.Exact)
		s.Cached += int64(l.Cached)
		s.Calls += int64(l.Calls)
		s.Keys += int64(l.Keys)
	}
}

func (d *decider) Close() error {
	var err error
	for _, c := range d.closers {
		err = errors.Join(err, c.Close())
	}
	return err
}
