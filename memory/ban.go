package memory

import (
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/algo"
	"github.com/sluicehq/sluice/internal/translate"
)

// banState returns the state of a ban as of now, and what is kept of it.
func (sh *shard) banState(bp *place, terms *algo.Ban, now int64) (state, kept algo.State) {
	if sl := sh.lookup(bp); sl != nil {
		kept = sl.state
	}
	return terms.Settled(kept, now), kept
}

// decideBan answers a request whose key may be banned, or become so: bp is the
// place of its ban.
func (sh *shard) decideBan(p *place, bp place, r *sluice.Request, a *algo.Request) sluice.Decision {
	terms := r.Ban.Terms()
	state, kept := sh.banState(&bp, &terms, a.Now)
	end := terms.Banned(state, a.Now)
	if end > 0 {
		state = terms.Attempted(state, a.Now)
		end = state.T
	}
	if state != kept && !r.Peek {
		sh.putBan(&bp, r.Limit, r.Key, state, a.Now)
	}
	if end > 0 {
		d := sh.decideLimit(p, true, a)
		return translate.Banned(end-a.Now, &d)
	}
	d := sh.decideLimit(p, r.Peek, a)
	if state, counts := translate.Denied(&terms, state, &d, a.Now); counts && !r.Peek {
		sh.putBan(&bp, r.Limit, r.Key, state, a.Now)
	}
	return d
}

// putBan keeps the state of a ban. If there is no room, the denial that it would
// count stands all the same.
func (sh *shard) putBan(bp *place, l *sluice.Limit, k sluice.Key, state algo.State, now int64) {
	sl := sh.lookup(bp)
	if sl == nil {
		if sl = sh.add(bp, now, false); sl == nil {
			return
		}
	}
	sl.state = state
	if (&algo.Ban{}).Banned(state, now) > 0 {
		sh.note(bp.banID(), l.Name(), k)
	}
}
