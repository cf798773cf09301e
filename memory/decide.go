package memory

import (
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// decide answers one request with the shard locked.
func (sh *shard) decide(p *place, r *sluice.Request, a *algo.Request) sluice.Decision {
	if r.Ban != nil {
		return sh.decideBan(p, p.ban(), r, a)
	}
	return sh.decideLimit(p, r.Peek, a)
}

// decideLimit answers one request, bans aside.
func (sh *shard) decideLimit(p *place, peek bool, a *algo.Request) sluice.Decision {
	sl := sh.lookup(p)
	if sl == nil {
		return sh.decideNew(p, peek, a)
	}
	if sl.version() != p.v.index {
		if peek || a.Cost == 0 {
			return sh.peekOther(p.v, sl, a)
		}
		if sh.restamps(p.v, sl, a.Now) {
			// What another version denies does not keep what is used from leaving.
			if d := sh.peekOther(p.v, sl, a); !d.Allowed {
				return d
			}
		}
		if !sh.convert(p.v, sl, a.Now) {
			return noRoom(p.v)
		}
	}
	return sh.decideSlot(p.v, sl, peek, a)
}

// decideSlot answers from a slot of the request's own version.
func (sh *shard) decideSlot(v *version, sl *slot, peek bool, a *algo.Request) sluice.Decision {
	switch {
	case peek:
		return sh.peekSlot(v, sl, a)
	case !v.params.Inline():
		if !sh.ensureBlock(v.params, sl, a.Now, false) {
			return noRoom(v)
		}
		ans := v.params.DecideWords(sh.words(sl), *a, true)
		return translate.Decision(v.params, &ans)
	}
	var ans algo.Result
	next := v.params.DecideState(sl.state, a, &ans)
	if next != sl.state {
		sl.state = next
	}
	return translate.Decision(v.params, &ans)
}

// peekSlot answers from a slot of the request's own version and writes nothing.
func (sh *shard) peekSlot(v *version, sl *slot, a *algo.Request) sluice.Decision {
	var w []uint64
	switch {
	case v.params.Inline():
	case sl.state.T == 0:
		least, _ := v.params.Words()
		w = make([]uint64, least)
	default:
		w = sh.words(sl)
	}
	return peekState(v, sl.state, w, a)
}

// peekOther answers from a slot that was written under other numbers, and leaves
// it as it is.
func (sh *shard) peekOther(v *version, sl *slot, a *algo.Request) sluice.Decision {
	from := sh.store.versions.at(sl.version()).params
	if v.params.Inline() {
		return peekState(v, v.params.ConvertState(from, sl.state, a.Now), nil, a)
	}
	least, _ := v.params.Words()
	w := make([]uint64, least)
	if sl.state.T != 0 {
		old := sh.words(sl)
		w = make([]uint64, max(least, len(old)))
		v.params.ConvertWords(from, w, old, a.Now)
	}
	return peekState(v, algo.State{}, w, a)
}

// peekState answers from a state, or from words, and writes nothing.
func peekState(v *version, s algo.State, w []uint64, a *algo.Request) sluice.Decision {
	var ans algo.Result
	v.params.Peek(s, w, a, &ans)
	return translate.Decision(v.params, &ans)
}

// decideNew answers for a key that has no slot, and gives it one if the answer
// leaves it in another state than a fresh one.
func (sh *shard) decideNew(p *place, peek bool, a *algo.Request) sluice.Decision {
	if peek || a.Cost == 0 {
		return sh.peekSlot(p.v, &slot{}, a)
	}
	if !p.v.params.Inline() {
		sl := sh.add(p, a.Now, false)
		if sl != nil && !sh.ensureBlock(p.v.params, sl, a.Now, false) {
			sh.remove(p)
			sl = nil
		}
		if sl == nil {
			return sh.decideFull(p, a)
		}
		return sh.decideSlot(p.v, sl, false, a)
	}
	var ans algo.Result
	state := p.v.params.DecideState(algo.State{}, a, &ans)
	if state != (algo.State{}) {
		sl := sh.add(p, a.Now, false)
		if sl == nil {
			return sh.decideFull(p, a)
		}
		sl.state = state
	}
	return translate.Decision(p.v.params, &ans)
}

// noRoom denies for lack of memory.
func noRoom(v *version) sluice.Decision {
	return sluice.Decision{Reason: sluice.ReasonTableFull, Limit: v.params.Capacity, RetryAfter: time.Second}
}

// decideFull answers for a new key when there is no room for it.
func (sh *shard) decideFull(p *place, a *algo.Request) sluice.Decision {
	sh.shared++
	if sh.store.denyWhenFull {
		return noRoom(p.v)
	}
	o := sh.store.overflow(p)
	sl := sh.sharedSlot(&o, a.Now)
	if sl == nil {
		return noRoom(p.v)
	}
	d := sh.decideSlot(o.v, sl, false, a)
	d.Overflow = true
	if d.Allowed {
		d.Receipt.At = ^d.Receipt.At // ends where it was charged
	}
	return d
}

// sharedSlot returns the slot of the budget that new keys of a limit share.
func (sh *shard) sharedSlot(o *place, now int64) *slot {
	sl := sh.lookup(o)
	if sl == nil {
		if sl = sh.add(o, now, true); sl == nil {
			return nil
		}
	} else if sl.version() != o.v.index && !sh.convert(o.v, sl, now) {
		return nil
	}
	if !o.v.params.Inline() && !sh.ensureBlock(o.v.params, sl, now, true) {
		return nil
	}
	return sl
}
