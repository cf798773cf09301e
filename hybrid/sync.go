package hybrid

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

const (
	// mostFlights bounds the calls that the synchronisation has in flight.
	mostFlights = 16
	// mostClaims bounds the claims of one call, because a script blocks the server.
	mostClaims = 128
	// ticks is how often an entry is looked at in the time between its synchronisations.
	ticks = 4
)

// run is the goroutine that synchronises all keys.
func (s *Store) run() {
	defer close(s.ended)
	var r rounds
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		switch {
		case len(r.awake) == 0:
			timer.Stop()
			r.armed = 0
		case r.armed != r.next:
			timer.Reset(time.Duration(max(r.next-s.clock.now().mono, int64(time.Millisecond))))
			r.armed = r.next
		}
		select {
		case <-s.base.Done():
			return
		case <-s.wakeUp:
		case <-timer.C:
			r.armed = 0
		}
		r.claims = r.claims[:0]
		now := s.clock.now()
		s.takeCalled(&r, now)
		if now.mono >= r.next {
			s.visit(&r, now)
		}
		s.send(r.claims)
	}
}

// rounds is what the goroutine keeps from round to round.
type rounds struct {
	awake  []*entry // the entries that are synchronised
	claims []*openClaim
	next   int64 // when to look at all of them, by the monotonic clock
	armed  int64 // the next for which the timer runs, or 0
}

// takeCalled begins to synchronise the entries that were put into the list.
func (s *Store) takeCalled(r *rounds, now instant) {
	s.waking.Lock()
	e := s.first
	s.first = nil
	s.waking.Unlock()
	for e != nil {
		e.lock()
		follow := e.follow
		e.follow, e.called = nil, false
		if !e.dead {
			if !e.awake {
				e.awake = true
				r.awake = append(r.awake, e)
				e.due = max(e.due, now.mono+e.terms.sync)
				r.next = min(r.next, now.mono+e.terms.sync/ticks)
			}
			if e.open == nil && (e.changed || e.prefetch && e.hot) && !s.draining.Load() {
				r.claims = append(r.claims, s.claim(e, now, purpose{}))
			}
			e.prefetch = false
		}
		e.unlock()
		e = follow
	}
}

// visit looks at all entries that are synchronised.
func (s *Store) visit(r *rounds, now instant) {
	kept := r.awake[:0]
	every := int64(time.Second)
	for _, e := range r.awake {
		e.lock()
		if s.look(r, e, now) {
			kept = append(kept, e)
			every = min(every, e.terms.sync/ticks)
		} else {
			e.awake = false
		}
		e.unlock()
	}
	clear(r.awake[len(kept):])
	r.awake = kept
	r.next = now.mono + every
}

// look makes the claim of an entry if it is due. It reports whether the entry goes on being
// synchronised.
func (s *Store) look(r *rounds, e *entry, now instant) bool {
	if e.dead {
		return false
	}
	e.count(now.mono)
	idle := now.mono-e.demand.last >= e.terms.sync
	if idle {
		e.cool()
	}
	if q := e.open; q != nil {
		if !q.flying && now.mono >= q.again {
			q.flying, q.done, q.sent = true, make(chan struct{}), now
			r.claims = append(r.claims, q)
		}
		return true
	}
	h := &e.hand
	switch {
	case e.idle():
		return e.hot
	case !e.hot && h.birth != 0:
		r.claims = append(r.claims, s.claim(e, now, purpose{all: true}))
	case now.mono < e.due:
	case h.birth != 0 || h.unreported() > 0 || h.deadline != never && e.terms.credit > 0:
		r.claims = append(r.claims, s.claim(e, now, purpose{}))
	}
	return true
}

// send makes the calls for claims. The claims of a shard travel together.
func (s *Store) send(claims []*openClaim) {
	if len(claims) == 0 {
		return
	}
	groups := map[int][]*openClaim{}
	var order []int
	for _, q := range claims {
		shard := 0
		if s.sharded != nil {
			shard = s.sharded.Shard(q.claim.Key)
		}
		if groups[shard] == nil {
			order = append(order, shard)
		}
		groups[shard] = append(groups[shard], q)
	}
	for _, shard := range order {
		group := groups[shard]
		for len(group) > 0 {
			n := min(len(group), mostClaims)
			s.start(group[:n:n])
			group = group[n:]
		}
	}
}

// start makes a call in a goroutine of its own. If there are too many, the claims are made later.
func (s *Store) start(group []*openClaim) {
	select {
	case s.flights <- struct{}{}:
	default:
		for _, q := range group {
			s.answer(q, &driver.Grant{Err: errBusy})
		}
		return
	}
	go func() {
		defer func() {
			_ = recover() // the claims have unknown outcomes then, and are repeated
			<-s.flights
		}()
		ctx, cancel := context.WithTimeout(s.base, s.deadline)
		defer cancel()
		s.fly(ctx, group)
	}()
}

// errBusy is the error of a claim that was not made.
var errBusy = errors.New("hybrid: too many calls are in flight")

// fly makes a call with claims, handles the answers, and returns them.
func (s *Store) fly(ctx context.Context, group []*openClaim) []driver.Grant {
	claims, grants := make([]driver.Claim, len(group)), make([]driver.Grant, len(group))
	for i, q := range group {
		claims[i] = q.claim
	}
	returned := false
	began := time.Now()
	defer func() {
		if returned {
			s.trip.took(int64(time.Since(began)))
		}
		for i, q := range group {
			if !returned { // a panic, or the end of the goroutine
				grants[i] = driver.Grant{Err: sluice.ErrUnknownOutcome}
			}
			s.answer(q, &grants[i])
		}
	}()
	s.backend.Grant(ctx, s.holder, claims, grants)
	returned = true
	return grants
}
