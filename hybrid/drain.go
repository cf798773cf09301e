package hybrid

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sluicehq/sluice/driver"
)

// Drain reports all spent units and returns all others, so that other processes get them at once.
// Requests that come later are decided by the wrapped store. It returns an error if the store did
// not take all of them before the context ended; the rest counts as used when the grants expire.
func (s *Store) Drain(ctx context.Context) error {
	s.draining.Store(true)
	for {
		left := s.drainOnce(ctx)
		if left == 0 {
			return nil
		}
		t := time.NewTimer(firstDrain)
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("hybrid: %d keys have units that were not returned: %w", left, ctx.Err())
		case <-s.base.Done():
			t.Stop()
			return errors.New("hybrid: the store was closed before all units were returned")
		case <-t.C:
		}
	}
}

// firstDrain is how long Drain waits before it tries again.
const firstDrain = 5 * time.Millisecond

// drainOnce makes the claims that return units, and returns how many entries have something left.
func (s *Store) drainOnce(ctx context.Context) (left int) {
	var claims []*openClaim
	now := s.clock.now()
	s.table.each(func(e *entry) {
		e.lock()
		defer e.unlock()
		h := &e.hand
		if e.dead {
			return
		}
		e.low, e.hot = math.MinInt64, false
		if h.deadline == never { // credit: what is left of it is not spent any more
			h.placed, h.left = h.unreported(), 0
			h.deadline = instant{}
		}
		switch q := e.open; {
		case q != nil && q.flying:
			left++
		case q != nil:
			q.flying, q.done, q.sent = true, make(chan struct{}), now
			claims = append(claims, q)
			left++
		case h.birth != 0 || h.unreported() > 0:
			claims = append(claims, s.claim(e, now, purpose{all: true}))
			left++
		}
	})
	for len(claims) > 0 && ctx.Err() == nil {
		n := min(len(claims), mostClaims)
		s.fly(ctx, claims[:n:n])
		claims = claims[n:]
	}
	for _, q := range claims { // the context has ended
		s.answer(q, &driver.Grant{Err: errBusy})
	}
	return left
}
