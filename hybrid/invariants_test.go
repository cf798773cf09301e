package hybrid

import (
	"errors"
	"fmt"
)

// Check returns what is wrong with the entries of a store. A test may call it at any time.
func Check(s *Store) error {
	var errs []error
	live := map[*tally]int64{}
	entries := map[*terms]int64{}
	for i := range s.table.stripes {
		sp := &s.table.stripes[i]
		sp.mu.Lock()
		if len(sp.all) > s.table.most {
			errs = append(errs, fmt.Errorf("a stripe has %d entries, more than %d", len(sp.all), s.table.most))
		}
		for _, e := range sp.all {
			if sp.find(&e.id, e.key, e.hash) != e {
				errs = append(errs, fmt.Errorf("%v is not found", e.key))
			}
			e.lock()
			if err := checkEntry(e); err != nil {
				errs = append(errs, fmt.Errorf("%v: %w: hand %+v", e.key, err, e.hand))
			}
			e.fold()
			live[e.terms.tally] += inHand(e)
			entries[e.terms]++
			e.unlock()
		}
		sp.mu.Unlock()
	}
	return errors.Join(append(errs, s.checkTallies(live, entries))...)
}

// checkTallies compares the sums of entries with the sums of limits.
func (s *Store) checkTallies(live map[*tally]int64, entries map[*terms]int64) error {
	var errs []error
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	for l, v := range s.registry.byLimit {
		if n := v.entries.Load(); n != entries[v] {
			errs = append(errs, fmt.Errorf("limit %v has %d entries and counts %d", l, entries[v], n))
		}
	}
	for _, t := range s.registry.tallies {
		got := int64(t.granted.Load() + t.extra.Load())
		used := int64(t.spent.Load()+t.returned.Load()+t.expired.Load()+t.lost.Load()) + live[t]
		if got != used {
			errs = append(errs, fmt.Errorf("limit %v: %d units were granted or owed, and %d are spent, returned, expired, lost or in hand", t.limit.Load(), got, used))
		}
	}
	return errors.Join(errs...)
}

// inHand returns the granted units that are unspent or unreported.
func inHand(e *entry) (n int64) {
	if e.hand.birth != 0 {
		n += e.hand.placed
	}
	if q := e.open; q != nil && q.claim.Birth != 0 {
		n += q.claim.Spent + q.claim.Returned
	}
	return n
}

func checkEntry(e *entry) error {
	h := &e.hand
	q := e.open
	switch {
	case e.dead:
		return errors.New("a dead entry is in the table")
	case e.limit != e.terms.limit || e.limit.ID() != e.id:
		return errors.New("the entry has another limit than its terms")
	case h.left < 0 || h.placed < h.left:
		return errors.New("more units are spent than were in hand")
	case h.birth == 0 && h.deadline != never && (h.left != 0 || h.deadline != instant{}):
		return errors.New("units without a grant are not credit")
	case h.birth != 0 && (h.till == 0 || h.deadline == never):
		return errors.New("a grant does not end")
	case q != nil && (q.entry != e || q.claim.Seq == 0 || q.claim.Spent < 0 || q.claim.Returned < 0):
		return fmt.Errorf("an impossible claim: %+v", q.claim)
	case !e.idle() && !e.awake && !e.called && (q == nil || !q.flying):
		return errors.New("nothing will synchronise the entry")
	}
	if h.deadline == never {
		used := h.placed
		if q != nil {
			used += q.claim.Spent
		}
		if used > e.terms.credit {
			return fmt.Errorf("%d units on a credit of %d", used, e.terms.credit)
		}
	}
	return nil
}
