package gate

import (
	"sync"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// queues count who waits, by rule and by key. They need not be in order: when a request's
// turn comes was decided by the store.
type queues struct {
	most int // by all rules, zero for what they hold

	mu    sync.Mutex
	total int
	rules map[string]int
	keys  map[place]int
}

// place is where a request waits. Limits that are no rule's have one queue together.
type place struct {
	rule string
	key  sluice.Key
}

func placeOf(m *policy.LimitResult) place {
	if m.Rule == nil {
		return place{}
	}
	return place{m.Rule.Name, m.Request.Key}
}

func (q *queues) init(most int) {
	q.most, q.rules, q.keys = most, make(map[string]int), make(map[place]int)
}

func (q *queues) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}

// enter takes a place, if there is one; first says that it is the request's first one. A nil
// rule is for limits that are no rule's.
func (q *queues) enter(at place, r *policy.Rule, first bool) error {
	queue, perKey := defaultWaiting, defaultWaiting
	if r != nil {
		queue, perKey = r.MaxWaiting, r.MaxWaitingPerKey
		if isShared(r) {
			perKey = queue
		}
	} else if q.most > 0 {
		queue, perKey = q.most, q.most
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case first && q.most > 0 && q.total >= q.most, r == nil && q.rules[at.rule] >= queue:
		return ErrTooManyWaiting
	case q.rules[at.rule] >= queue:
		return ErrQueueFull
	case q.keys[at] >= perKey:
		return ErrKeyQueueFull
	}
	if first {
		q.total++
	}
	q.rules[at.rule]++
	q.keys[at]++
	return nil
}

// leave frees all places of a request.
func (q *queues) leave(places []place) {
	if len(places) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	for _, at := range places {
		if q.rules[at.rule]--; q.rules[at.rule] == 0 {
			delete(q.rules, at.rule)
		}
		if q.keys[at]--; q.keys[at] == 0 {
			delete(q.keys, at)
		}
	}
}

// isShared reports whether all requests have the same key: then there is nobody to be fair to.
func isShared(r *policy.Rule) bool {
	for i := range r.Key {
		if r.Key[i].Source != policy.FromConstant {
			return false
		}
	}
	return true
}
