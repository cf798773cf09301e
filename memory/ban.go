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
	state, bp := sh.banState(p)
	if end := terms.Banned(state, a.Now); end > 0 {
		left := time.Duration(end-a.Now) * time.Microsecond
		return sluice.Decision{
			Reason: sluice.ReasonBanned, Limit: p.v.params.Capacity,
			RetryAfter: left, ResetAfter: left,
		}
	}
	d := sh.decideLimit(p, r.Peek, a)
	if d.Allowed || d.Reason == sluice.ReasonTableFull {
		return d
	}
	state = terms.Denied(state, a.Now)
	if end := terms.Banned(state, a.Now); end > 0 && d.Reason != sluice.ReasonNever {
		d.RetryAfter = max(d.RetryAfter, time.Duration(end-a.Now)*time.Microsecond)
	}
	if r.Peek {
		return d
	}
	sl := sh.lookup(&bp)
	if sl == nil {
		if sl = sh.add(&bp, a.Now, false); sl == nil {
			return d // no room to count the denial; the denial itself stands
		}
	}
	sl.state = state
	return d
}
