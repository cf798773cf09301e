package memory

import (
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
)

// banTerms puts the terms of a ban in those of its algorithm.
func banTerms(b *sluice.Ban) algo.Ban {
	t := algo.Ban{After: b.After, Within: int64(b.Within / time.Microsecond), For: int64(b.For / time.Microsecond)}
	if t.Within == 0 {
		t.Within = t.For
	}
	return t
}

// banState returns the state of a key's ban and its place.
func (sh *shard) banState(p *place) (algo.State, place) {
	bp := p.ban()
	if sl := sh.lookup(&bp); sl != nil {
		return sl.state, bp
	}
	return algo.State{}, bp
}

// decideBan answers a request whose key may be banned, or become so.
func (sh *shard) decideBan(p *place, r *sluice.Request, a *algo.Ask) sluice.Decision {
	terms := banTerms(r.Ban)
	kept, bp := sh.banState(p)
	state := terms.Settled(kept, a.Now)
	if state != kept && !r.Peek {
		sh.putBan(&bp, state, a.Now)
	}
	if end := terms.Banned(state, a.Now); end > 0 {
		// The request passes when both the ban and the limit let it.
		left := time.Duration(end-a.Now) * time.Microsecond
		d := sh.decideLimit(p, true, a)
		return sluice.Decision{
			Reason: sluice.ReasonBanned, Limit: p.v.params.Capacity,
			RetryAfter: max(left, d.RetryAfter), ResetAfter: max(left, d.ResetAfter),
		}
	}
	d := sh.decideLimit(p, r.Peek, a)
	if d.Allowed || d.Reason == sluice.ReasonTableFull {
		return d
	}
	state = terms.Denied(state, a.Now)
	if end := terms.Banned(state, a.Now); end > 0 {
		left := time.Duration(end-a.Now) * time.Microsecond
		d.ResetAfter = max(d.ResetAfter, left)
		if d.Reason != sluice.ReasonNever {
			d.RetryAfter = max(d.RetryAfter, left)
		}
	}
	if !r.Peek {
		sh.putBan(&bp, state, a.Now)
	}
	return d
}

// countDenial counts a denial that was not found by decideBan.
func (sh *shard) countDenial(p *place, b *sluice.Ban, now int64) {
	terms := banTerms(b)
	state, bp := sh.banState(p)
	sh.putBan(&bp, terms.Denied(terms.Settled(state, now), now), now)
}

// putBan keeps the state of a ban. If there is no room, the denial that it would
// count stands all the same.
func (sh *shard) putBan(bp *place, state algo.State, now int64) {
	sl := sh.lookup(bp)
	if sl == nil {
		if sl = sh.add(bp, now, false); sl == nil {
			return
		}
	}
	sl.state = state
}
