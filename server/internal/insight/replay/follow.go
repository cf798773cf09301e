package replay

import (
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// last is the last decision, if it may be undone.
type last struct {
	verdict policy.Verdict
	flight  *flight
	refused *policy.LimitResult // for which the request could not wait
}

// deferred is a record whose verdict does not follow from the records before it. Lines of one moment can be in another order
// than their decisions were, so the records of the next moment are decided first.
type deferred struct {
	rec    *logs.Record
	id     int64
	logged bool
}

// follow decides about a record whose verdict is in the log. If the verdict follows only from an earlier or a later time, or
// from another order, within the resolution of the log, this is the outcome. So one difference does not lead to others.
func (e *engine) follow(rec *logs.Record, id int64, logged bool) outcome {
	e.giveUp(rec.At - e.exact)
	for _, change := range [...]int64{0, -e.exact, e.exact} {
		if o, ok := e.try(rec, id, logged, change); ok {
			o.within = o.within || change != 0
			e.tryDeferred()
			return o
		}
	}
	for rec.Verdict.Action != "deny" && e.endLease(e.last.verdict.Results) {
		if o, ok := e.try(rec, id, logged, 0); ok {
			o.within = true
			return o
		}
	}
	e.deferred = append(e.deferred, deferred{clone(rec), id, logged})
	return outcome{kind: waiting}
}

// endLease ends the oldest lease of a limit that lets a request wait or denies it. It returns false if there is none.
func (e *engine) endLease(results []policy.LimitResult) bool {
	for i := range results {
		r := &results[i]
		if !e.open || !r.Request.Limit.IsConcurrency() || r.Decision.Allowed && r.Decision.Delay == 0 {
			continue
		}
		for at := keyOf(r); len(e.held[at]) > 0; {
			f := e.held[at][0]
			if e.held[at] = e.held[at][1:]; !f.over {
				f.finish()
				return true
			}
		}
	}
	return false
}

// try decides about a record, and undoes the decision if it is not the verdict of the log.
func (e *engine) try(rec *logs.Record, id int64, logged bool, change int64) (o outcome, ok bool) {
	now := e.now
	e.trying, e.last, e.now = true, last{}, now+change
	o = e.enter(rec, id, logged)
	e.trying = false
	if e.open && o.kind == waiting && rec.Verdict.Action == "deny" { // the wait was too long, or the queue was full
		e.last.refused = e.last.flight.queued[e.last.flight.next]
		o = outcome{kind: denied, rule: int16(e.index[e.last.refused.Rule]), reason: sluice.ReasonLimited, within: true}
		e.undo()
	} else if !o.agrees(&rec.Verdict) {
		e.undo()
		e.now = now
		return o, false
	}
	e.now = now
	e.count(&e.last.verdict)
	if e.last.refused != nil {
		e.countRefused(e.last.refused)
	}
	if f := e.last.flight; e.open && o.kind == waiting && f.turn == 0 {
		f.outcome.within = true
		for f.handled == 0 && e.endLease(f.results) {
			continue // the request begins as soon as it has all leases
		}
	}
	return o, true
}

// tryDeferred decides again about the deferred records.
func (e *engine) tryDeferred() {
	for i := 0; i < len(e.deferred); i++ {
		d := e.deferred[i]
		if o, ok := e.try(d.rec, d.id, d.logged, 0); ok {
			o.within = true
			e.resolved(d.id, o)
			e.deferred = append(e.deferred[:i], e.deferred[i+1:]...)
			i = -1 // the others may follow from this one
		}
	}
}

// giveUp decides about the deferred records before a time, whatever the log has.
func (e *engine) giveUp(before int64) {
	for len(e.deferred) > 0 && e.deferred[0].rec.At < before {
		d := e.deferred[0]
		e.deferred = e.deferred[1:]
		e.resolved(d.id, e.enter(d.rec, d.id, d.logged))
	}
}

// agrees reports whether the outcome is a verdict of a log. Sluice's own log has a wait as allow, and limit_req of nginx,
// which names no rule, has a word for it.
func (o *outcome) agrees(v *logs.Verdict) bool {
	switch {
	case o.kind == waiting:
		return v.Action == "allow" // the wait may end in time
	case v.Action == "delay":
		return o.kind == delayed
	case o.kind == delayed:
		return v.Action == "allow" && v.Rule != ""
	}
	return o.action() == v.Action
}

// undo gives back what the last decision took.
func (e *engine) undo() {
	if f := e.last.flight; f != nil && !f.over {
		f.undo()
		return
	}
	for i := range e.last.verdict.Results {
		_ = e.last.verdict.Results[i].GiveBack(background, e.store) // as far as it can be
	}
}
