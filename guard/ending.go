package guard

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
)

// ending is the end of a lease of the store that has failed. The guard repeats it until the lease
// would have ended by itself, because many callers do not, and its unit would stay taken.
// Repeating does no harm: a member is one lease, and the store ends a lease once.
type ending struct {
	store  *Store
	id     leaseID
	charge sluice.Charge
	one    oneCall // ends it

	// These are protected by the mutex of the leases.
	unknown bool // the outcome of a call is unknown: the lease may have ended
	done    bool // the lease has ended
}

// endLease ends a charge of the store by a call. If it is a lease, and that fails, the guard tries again later.
func (s *Store) endLease(ctx context.Context, c *sluice.Charge, one oneCall) error {
	if c.Limit == nil || c.Member == 0 || !c.Limit.IsConcurrency() {
		return s.about(ctx, c.Key, one)
	}
	id := s.leases.id(c.Limit, c.Key, c.Member)
	if s.leases.hasEnded(id) {
		return nil
	}
	err := s.about(ctx, c.Key, one)
	if err == nil || isAnswer(err) {
		return err
	}
	e := &ending{store: s, id: id, charge: *c, one: one}
	until := time.Now().Add(c.Limit.LeaseTTL())
	if s.leases.end(e, errors.Is(err, sluice.ErrUnknownOutcome), until) && !s.doubts.Start(until, e.again) {
		s.leases.drop(id)
	}
	return err
}

// hasEnded reports whether the guard has ended a lease after its member could not.
func (ls *leases) hasEnded(id leaseID) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.held[id]
	return l.end != nil && l.end.done
}

// end remembers that the end of a lease has failed. It reports whether the end must be repeated:
// unless it is repeated already, or too many leases are held to see whether a member takes it again.
func (ls *leases) end(e *ending, unknown bool, until time.Time) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, ok := ls.held[e.id]
	if ok && l.end != nil {
		l.end.unknown = l.end.unknown || unknown
		return false
	}
	if len(ls.held) >= ls.most {
		delete(ls.held, e.id)
		return false
	}
	e.unknown = unknown
	l.by, l.receipt, l.ends, l.end = byStore, e.charge.Receipt, until, e
	ls.held[e.id] = l
	return true
}

// again repeats the end, unless its lease has ended, or its member has taken it again. It reports
// whether nothing is left to do.
func (e *ending) again() (done bool) {
	ls := &e.store.leases
	if !ls.isEnding(e) {
		return true
	}
	err := e.store.about(context.Background(), e.charge.Key, e.one)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.held[e.id].end != e {
		return true
	}
	switch {
	case err == nil || errors.Is(err, sluice.ErrLeaseLost) && e.unknown:
		e.done = true
	case isAnswer(err):
		delete(ls.held, e.id) // it had ended by itself
	default:
		e.unknown = e.unknown || errors.Is(err, sluice.ErrUnknownOutcome)
		return false
	}
	return true
}

// isEnding reports whether an end must still be repeated.
func (ls *leases) isEnding(e *ending) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.held[e.id].end == e
}
