package guard

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/driver"
)

// lane is the way to one shard of the store: its breaker, and its calls in flight. A store that
// is not Sharded has one lane. See docs/adr/0030.
type lane struct {
	breaker  breaker
	inFlight atomic.Int64
}

// maxLanes bounds the lanes of a guard. Further shards share them.
const maxLanes = 1024

// lanes are the lanes of a store.
type lanes struct {
	sharded driver.Sharded // nil for a store that is not Sharded
	o       *Options
	hooks   *hooks
	first   lane // of shard 0
	// lists is for lists of bans, which concern all shards. Its breaker stays closed.
	lists lane

	more atomic.Pointer[[]*lane] // of the shards from 1
	mu   sync.Mutex              // held to add one
}

func (ls *lanes) init(o *Options, h *hooks) {
	ls.sharded, _ = sluice.As[driver.Sharded](o.Store)
	ls.o, ls.hooks = o, h
	ls.first.breaker.init(o, h)
	ls.lists.breaker.init(o, h)
	ls.more.Store(new([]*lane))
}

// of returns the lane to the shard of a key.
func (ls *lanes) of(k sluice.Key) *lane {
	if ls.sharded == nil {
		return &ls.first
	}
	return ls.at(ls.sharded.Shard(k))
}

// at returns the lane to a shard.
func (ls *lanes) at(shard int) *lane {
	n := shard % maxLanes
	if n <= 0 {
		return &ls.first
	}
	if more := *ls.more.Load(); n <= len(more) {
		return more[n-1]
	}
	return ls.grow(n)
}

// grow adds the lanes up to a number.
func (ls *lanes) grow(n int) *lane {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	more := slices.Clone(*ls.more.Load())
	for len(more) < n {
		l := new(lane)
		l.breaker.init(ls.o, ls.hooks)
		more = append(more, l)
	}
	ls.more.Store(&more)
	return more[n-1]
}

// each calls f for all lanes to shards.
func (ls *lanes) each(f func(shard int, l *lane)) {
	f(0, &ls.first)
	for i, l := range *ls.more.Load() {
		f(i+1, l)
	}
}

// listing returns the lane for lists of bans.
func (ls *lanes) listing() *lane {
	if ls.sharded == nil {
		return &ls.first
	}
	return &ls.lists
}

// idleShard is how long a shard that fails counts without requests. Then it may no longer exist.
const idleShard = time.Minute

// stateOf returns the state of a lane's breaker, and StateClosed for a shard that may no longer exist.
func (ls *lanes) stateOf(l *lane) State {
	state := l.breaker.state()
	if state == StateOpen && ls.sharded != nil && l.breaker.overdue() > idleShard {
		return StateClosed
	}
	return state
}

// state returns StateClosed if the breakers of all shards are, and otherwise StateOpen, or StateHalfOpen if none
// is StateOpen.
func (ls *lanes) state() State {
	worst := StateClosed
	ls.each(func(_ int, l *lane) {
		switch ls.stateOf(l) {
		case StateOpen:
			worst = StateOpen
		case StateHalfOpen:
			if worst == StateClosed {
				worst = StateHalfOpen
			}
		case StateClosed:
		}
	})
	return worst
}

// stats adds the figures of all lanes.
func (ls *lanes) stats(st *Stats) {
	st.State = ls.state()
	var failedAt time.Time
	ls.each(func(_ int, l *lane) {
		l.breaker.stats(st, &failedAt)
		st.InFlight += int(l.inFlight.Load())
		st.Shards++
		if ls.stateOf(l) != StateClosed {
			st.Failing++
		}
	})
	st.InFlight += int(ls.lists.inFlight.Load())
}

// use is the use of a lane by a call.
type use struct {
	lane   *lane
	permit permit
	good   uint64 // of the breaker, when the call began
}

// enter lets a call into a lane, or returns why the store must not be called.
func (s *Store) enter(c *call, l *lane) error {
	if l.inFlight.Add(1) > int64(s.o.MaxInFlight) {
		l.inFlight.Add(-1)
		s.shed.Add(1)
		return ErrBusy
	}
	p, ok := l.breaker.enter()
	if !ok {
		l.inFlight.Add(-1)
		s.refused.Add(1)
		return ErrOpen
	}
	c.uses = append(c.uses, use{l, p, l.breaker.good.Load()})
	return nil
}

// enterAll lets a batch into the lanes of its requests. If some lanes are closed to it,
// away reports for each request whether its lane is, and why says so.
func (s *Store) enterAll(c *call, rs []sluice.Request) (away []bool, why error) {
	if s.lanes.sharded == nil || len(rs) == 0 {
		return nil, s.enter(c, &s.lanes.first)
	}
	var closed []*lane
	for i := range rs {
		l := s.lanes.of(rs[i].Key)
		if c.isIn(l) {
			continue
		}
		if !slices.Contains(closed, l) {
			err := s.enter(c, l)
			if err == nil {
				continue
			}
			closed, why = append(closed, l), err
		}
		if away == nil {
			away = make([]bool, len(rs))
		}
		away[i] = true
	}
	return away, why
}

// isIn reports whether a call is in a lane.
func (c *call) isIn(l *lane) bool {
	for i := range c.uses {
		if c.uses[i].lane == l {
			return true
		}
	}
	return false
}

// leave lets a call that has returned out of its lanes.
func (c *call) leave() {
	for i := range c.uses {
		c.uses[i].lane.inFlight.Add(-1)
	}
}

// probes reports whether a call is the probe of a lane.
func (c *call) probes() bool {
	for i := range c.uses {
		if c.uses[i].permit.probe {
			return true
		}
	}
	return false
}

// succeed reports to the breakers that a call did not fail.
func (c *call) succeed() {
	for i := range c.uses {
		c.uses[i].lane.breaker.succeed(c.uses[i].permit)
	}
}

// giveUp reports to the breakers that a call has no outcome.
func (c *call) giveUp() {
	for i := range c.uses {
		c.uses[i].lane.breaker.giveUp(c.uses[i].permit)
	}
}

// fail reports to the breakers that a call failed with err. why is the reason. If a call in
// several lanes failed, only the failed shards are to blame. If they are unknown, these are the
// shards that have answered no other call meanwhile.
func (s *Store) fail(c *call, err, why error) {
	if len(c.uses) == 1 {
		c.uses[0].lane.breaker.fail(c.uses[0].permit, why)
		return
	}
	var parts *driver.ShardError
	if !errors.As(err, &parts) {
		c.failSilent(why)
		return
	}
	for i := range c.uses {
		p := &c.uses[i]
		failed := slices.ContainsFunc(parts.Failed, func(i int) bool {
			return i < len(c.requests) && s.lanes.of(c.requests[i].Key) == p.lane
		})
		if failed {
			p.lane.breaker.fail(p.permit, why)
		} else {
			p.lane.breaker.succeed(p.permit)
		}
	}
}

// failSilent reports to the breakers of the shards that have answered no call since this one
// began that it failed.
func (c *call) failSilent(why error) {
	for i := range c.uses {
		if p := &c.uses[i]; p.lane.breaker.good.Load() == p.good {
			p.lane.breaker.fail(p.permit, why)
		} else {
			p.lane.breaker.giveUp(p.permit)
		}
	}
}

// Failing returns the shards whose breakers are not StateClosed. A store that is not Sharded is shard 0.
func (s *Store) Failing() []int {
	var all []int
	s.lanes.each(func(shard int, l *lane) {
		if s.lanes.stateOf(l) != StateClosed {
			all = append(all, shard)
		}
	})
	return all
}
