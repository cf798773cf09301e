package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// isDelayed reports whether the request must wait for a limit.
func isDelayed(r *policy.LimitResult) bool {
	return r.Decision.Delay > 0 && r.Decision.Allowed && !r.Request.Shadow && r.Role == policy.RoleEnforced
}

// blocked is a limit that a request could not wait for.
type blocked struct {
	result *policy.LimitResult
	err    error
	wait   time.Duration // until the limit would let the request pass
	failed bool          // err is the store's
}

// wait waits for all delays of a verdict. It returns nil when they have passed.
func (g *Gate) wait(ctx context.Context, v *policy.Verdict) *blocked {
	if err := ctx.Err(); err != nil {
		return ended(v, err)
	}
	began := time.Now()
	deadline, bounded := ctx.Deadline()
	var queued []queueKey
	defer func() { g.counts.leave(queued) }()
	for i := range v.Results {
		r := &v.Results[i]
		if !isDelayed(r) {
			continue
		}
		delay, most := r.Decision.Delay, g.o.most(r)
		if delay > most {
			// After this wait, the request accepts the remaining delay.
			return &blocked{result: r, err: ErrTooLate, wait: delay - max(0, most)}
		}
		if bounded && deadline.Sub(began) < delay {
			return &blocked{result: r, err: sluice.ErrDeadline, wait: delay}
		}
		at := queueKeyOf(r)
		if err := g.counts.enter(at, r.Rule, len(queued) == 0); err != nil {
			return &blocked{result: r, err: err, wait: delay}
		}
		queued = append(queued, at)
	}
	var turn time.Duration
	for i := range v.Results {
		if r := &v.Results[i]; isDelayed(r) && !r.IsLease() {
			turn = max(turn, r.Decision.Delay)
		}
	}
	if err := sleep(ctx, turn); err != nil {
		return ended(v, err)
	}
	for i := range v.Results {
		if r := &v.Results[i]; isDelayed(r) && r.IsLease() {
			if blocked := g.await(ctx, r, began); blocked != nil {
				return blocked
			}
		}
	}
	return nil
}

// ended returns the limit with the longest delay: the context ended during that delay.
func ended(v *policy.Verdict, err error) *blocked {
	b := &blocked{err: err}
	for i := range v.Results {
		if r := &v.Results[i]; isDelayed(r) && (b.result == nil || r.Decision.Delay > b.wait) {
			b.result, b.wait = r, r.Decision.Delay
		}
	}
	return b
}

// sleep waits for d or the end of the context.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deny turns the verdict into a denial by the limit.
func (b *blocked) deny(v *policy.Verdict) error {
	r, err, reason := b.result, b.err, sluice.ReasonLimited
	switch {
	case b.failed:
		reason, v.Err = sluice.ReasonStoreError, err
	case errors.Is(err, context.DeadlineExceeded):
		err = errors.Join(sluice.ErrDeadline, err)
	}
	refused := &Error{Limit: r.Request.Limit.Name(), Err: err}
	if r.Rule != nil {
		refused.Rule = r.Rule.Name
	}
	d := &r.Decision
	d.Allowed, d.Reason, d.Remaining, d.Delay, d.RetryAfter = false, reason, 0, 0, max(b.wait, time.Second)
	v.Deny(reason, r.Rule, r)
	v.Refused = refused
	return refused
}

// await waits for the turn of a request that a concurrency limit has queued: until a new decision of
// the store has no delay. Each decision also renews the request's lease.
func (g *Gate) await(ctx context.Context, r *policy.LimitResult, began time.Time) *blocked {
	most := g.o.most(r)
	until, wait := began.Add(most), r.Decision.Delay
	w := g.queues.join(limitKeyOf(&r.Request), r.Decision.Receipt.At, wait)
	served := false
	defer func() { g.queues.leave(w, served) }()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for pause := leastPause; ; {
		inFront := g.queues.isInFront(w)
		left := time.Until(until)
		if left <= 0 {
			return &blocked{result: r, err: ErrTooLate, wait: wait - max(0, most)}
		}
		if inFront {
			left = min(left, pause/2+rand.N(pause))
			pause = min(2*pause, mostPause, max(soonest, wait/2))
		}
		timer.Reset(left)
		select {
		case <-w.wake:
		case <-timer.C:
			if !inFront {
				continue
			}
		case <-ctx.Done():
			return &blocked{result: r, err: ctx.Err(), wait: wait}
		}
		d, err := g.store.Decide(ctx, r.Request)
		switch {
		case ctx.Err() != nil:
			return &blocked{result: r, err: ctx.Err(), wait: wait}
		case err != nil && r.Rule != nil && r.Rule.OnStoreError == sluice.FallbackDeny:
			return &blocked{result: r, err: err, wait: wait, failed: true}
		case err != nil:
			// The request holds its lease, and the rule lets requests pass when the store cannot
			// decide.
			g.report(ctx, err)
			served = true
			return nil
		case !d.Allowed:
			return &blocked{result: r, err: sluice.ErrLeaseLost}
		}
		if wait = d.Delay; wait <= 0 {
			served = true
			return nil
		}
		g.queues.pass(w)
	}
}

// counts bounds how many requests wait, by rule and by key. It keeps no order, because the store
// decides when a request's turn comes.
type counts struct {
	most int // for all rules; zero for as many as their queues hold

	mu    sync.Mutex
	total int
	rules map[string]int
	keys  map[queueKey]int
}

// queueKey is where a request waits. Limits without a rule share one queue.
type queueKey struct {
	rule string
	key  sluice.Key
}

func queueKeyOf(r *policy.LimitResult) queueKey {
	if r.Rule == nil {
		return queueKey{}
	}
	return queueKey{r.Rule.Name, r.Request.Key}
}

func (c *counts) init(most int) {
	c.most, c.rules, c.keys = most, make(map[string]int), make(map[queueKey]int)
}

func (c *counts) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// enter counts a request that begins to wait, if there is room. first says that the request does not
// wait for another limit yet. Limits without a rule share one queue, and so do rules without a name.
func (c *counts) enter(at queueKey, rule *policy.Rule, first bool) error {
	queue, perKey := defaultWaiting, defaultWaiting
	own := rule != nil && rule.MaxWaiting > 0
	switch {
	case own:
		queue, perKey = rule.MaxWaiting, rule.MaxWaitingPerKey
		if hasOneKey(rule) {
			perKey = queue
		}
	case c.most > 0:
		queue, perKey = c.most, c.most
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case first && c.most > 0 && c.total >= c.most, !own && c.rules[at.rule] >= queue:
		return ErrTooManyWaiting
	case c.rules[at.rule] >= queue:
		return ErrQueueFull
	case c.keys[at] >= perKey:
		return ErrKeyQueueFull
	}
	if first {
		c.total++
	}
	c.rules[at.rule]++
	c.keys[at]++
	return nil
}

// leave takes a request out of all queues that it waits in.
func (c *counts) leave(queued []queueKey) {
	if len(queued) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	for _, at := range queued {
		if c.rules[at.rule]--; c.rules[at.rule] == 0 {
			delete(c.rules, at.rule)
		}
		if c.keys[at]--; c.keys[at] == 0 {
			delete(c.keys, at)
		}
	}
}

// hasOneKey reports whether all requests of a rule have the same key. Then there are no other keys to
// be fair to.
func hasOneKey(r *policy.Rule) bool {
	for i := range r.Key {
		if r.Key[i].Source != source.Constant {
			return false
		}
	}
	return true
}
