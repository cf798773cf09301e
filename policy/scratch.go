package policy

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// scratch is what one decision needs on its way and gives back for the next one.
// What a verdict keeps is not in it.
type scratch struct {
	attributes Attributes // a copy, so that the caller's own need not be on the heap
	found      []entry
	values     []partValue
	asked      []asked
	requests   []sluice.Request
	decisions  []sluice.Decision
	key        []byte

	address       keyRef // the key made of the client's address, if it was made
	addressPrefix int
}

// asked is a rule that is to be decided.
type asked struct {
	rule    *rule
	key     keyRef
	cost    int64
	maxWait time.Duration
	peek    bool
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func newScratch() *scratch { return scratches.Get().(*scratch) }

// keepKey is the largest buffer for keys that is kept for the next decision.
const keepKey = 16 << 10

func (s *scratch) free() {
	s.attributes = Attributes{}
	clear(s.values[:cap(s.values)]) // of all rules; each wrote over the one before
	clear(s.asked)
	clear(s.requests)
	s.values, s.asked, s.requests, s.key = s.values[:0], s.asked[:0], s.requests[:0], s.key[:0]
	s.address = keyRef{}
	if cap(s.key) > keepKey {
		s.key = nil
	}
	scratches.Put(s)
}

// add takes in a rule that the request meets, whose values are in s. skip says
// that it does not after all; denied is the verdict if no store need be asked.
func (s *scratch) add(r *rule, cost int64, maxWait time.Duration, peek bool) (skip bool, denied *Verdict) {
	key, missing := s.makeKey(r.parts)
	if missing != nil {
		if missing.OnMissing == MissingSkip || r.Shadow {
			return missing.OnMissing == MissingSkip, nil
		}
		return false, &Verdict{Action: Deny, Reason: sluice.ReasonMissingKey, Rule: &r.Rule, Missing: missing}
	}
	if cost < 0 {
		return false, &Verdict{Action: Deny, Reason: sluice.ReasonNever, Rule: &r.Rule, Err: negativeCost(r.Limits[0])}
	}
	s.asked = append(s.asked, asked{r, key, cost, shorter(maxWait, r.MaxWait), peek})
	return false, nil
}

// shorter returns the shorter of two MaxWaits, of which zero leaves it to the other.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// fill makes the requests of all that is asked.
func (s *scratch) fill() {
	buffer := string(s.key)
	for i := range s.asked {
		q := &s.asked[i]
		key := q.key.key(buffer)
		for j := range q.rule.asks {
			s.requests = append(s.requests, q.rule.asks[j])
			r := &s.requests[len(s.requests)-1]
			r.Key, r.Cost, r.MaxWait, r.Peek = key, q.cost, q.maxWait, q.peek
			if q.rule.leases[j] && !q.peek {
				r.Member = rand.Uint64() | 1 // it tells leases apart, and opens nothing
			}
		}
	}
}

// met returns what is asked, without decisions.
func (s *scratch) met() []Met {
	if len(s.requests) == 0 {
		s.fill()
	}
	met := make([]Met, len(s.requests))
	n := 0
	for i := range s.asked {
		r := s.asked[i].rule
		for range r.asks {
			met[n].Rule, met[n].Request = &r.Rule, s.requests[n]
			n++
		}
	}
	return met
}

// decide puts what is asked to the store and folds the decisions.
func (s *scratch) decide(ctx context.Context, store sluice.Store, v *Verdict) {
	s.fill()
	n := len(s.requests)
	if cap(s.decisions) < n {
		s.decisions = make([]sluice.Decision, n, 2*n)
	}
	s.decisions = s.decisions[:n]
	clear(s.decisions)
	var err error
	if n == 1 {
		s.decisions[0], err = store.Decide(ctx, s.requests[0])
	} else {
		err = store.DecideAll(ctx, s.requests, s.decisions)
	}
	v.Met = s.met()
	if err != nil {
		v.fail(err)
		return
	}
	for i := range v.Met {
		v.Met[i].Decision = s.decisions[i]
	}
	v.fold()
}

// fail makes the verdict of a store that could not decide.
func (v *Verdict) fail(err error) {
	v.Err, v.Reason = err, sluice.ReasonStoreError
	var bad *sluice.RequestError
	// A question that cannot be asked is no failure of the store, to be forgiven.
	refused := errors.As(err, &bad)
	if refused {
		v.Reason = sluice.ReasonNever
	}
	for i := range v.Met {
		r := v.Met[i].Rule
		if r.Shadow {
			continue
		}
		if v.Rule == nil {
			v.Rule = r
		}
		if refused || r.OnStoreError == FallbackDeny {
			v.Action, v.Rule = Deny, r
			return
		}
	}
}
