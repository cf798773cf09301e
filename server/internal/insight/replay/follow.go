package replay

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// trials is a store that can decide without taking anything.
type trials struct {
	*memory.Store
	on bool
}

// Decide decides one request.
func (s *trials) Decide(ctx context.Context, r sluice.Request) (sluice.Decision, error) {
	r.Peek = r.Peek || s.on
	return s.Store.Decide(ctx, r)
}

// DecideAll decides several requests as one.
func (s *trials) DecideAll(ctx context.Context, rs []sluice.Request, out []sluice.Decision) error {
	if s.on {
		rs = slices.Clone(rs)
		for i := range rs {
			rs[i].Peek = true
		}
	}
	return s.Store.DecideAll(ctx, rs, out)
}

// Cancel gives a charge back.
func (s *trials) Cancel(ctx context.Context, c sluice.Charge) error {
	if s.on {
		return nil // nothing was taken
	}
	return s.Store.Cancel(ctx, c)
}

// moment is when a verdict is tried.
type moment struct {
	now      int64
	pressure int64 // the time of the pressure by which rules match
	rule     bool  // the rule of the log must have decided too
}

// latest is the time of the present pressure.
const latest = math.MaxInt64

// deferred is a record whose verdict does not follow from the records before it. A decision that takes long is in the log behind
// later ones, so records of the next moment are decided first.
type deferred struct {
	rec    *logs.Record
	id     int64
	logged bool
}

// longestDecision bounds how much later the line of a decision can come than lines of decisions after it: a busy machine can
// interrupt a program between the decision and the line.
const longestDecision = int64(time.Second / time.Microsecond)

// follow decides about a record whose verdict is in the log. If the verdict follows only from an earlier or a later time, or
// from another order, within the resolution of the log, this is the outcome. So one difference does not lead to others.
func (e *engine) follow(rec *logs.Record, id int64, logged bool) outcome {
	slack := e.exact + min(rec.Verdict.Took, longestDecision)
	if rec.Verdict.Took > 0 {
		e.patience = longestDecision
	}
	e.giveUp(rec.At - max(e.exact, e.patience))
	early := rec.At - slack
	named := e.named
	moments := [...]moment{{e.now, latest, named}, {early, early, named}, {e.now + slack, latest, named}, {e.now, early, named}}
	for range 2 {
		for i, m := range moments {
			if o, ok := e.try(rec, id, logged, m); ok {
				o.within = o.within || i > 0
				e.tryDeferred(early)
				return o
			}
			moments[i].rule = false
		}
	}
	for rec.Verdict.Action != "deny" && e.endLease() {
		if o, ok := e.try(rec, id, logged, moment{e.now, latest, false}); ok {
			o.within = true
			return o
		}
	}
	v := e.foreseen(rec)
	e.press(&v) // it is demand whatever its verdict is
	v.Free()
	e.deferred = append(e.deferred, deferred{clone(rec), id, logged})
	return outcome{kind: waiting}
}

// try decides about a record at a moment, if the decision is the verdict of the log.
func (e *engine) try(rec *logs.Record, id int64, logged bool, m moment) (o outcome, ok bool) {
	now := e.now
	defer func() { e.now, e.felt = now, latest }()
	e.now, e.felt = m.now, m.pressure
	v := e.foreseen(rec)
	if v.Refused != nil {
		return e.enter(rec, id, logged), true
	}
	o, lease := e.foresee(&v)
	if e.open && lease != nil && rec.Verdict.Action == "deny" { // the wait was too long, or the queue was full
		e.count(&v)
		e.countRefused(lease)
		return outcome{kind: denied, rule: int16(e.index[lease.Rule]), reason: sluice.ReasonLimited, within: true}, true
	}
	e.wanted = e.wanted[:0]
	for i := range v.Results {
		if r := &v.Results[i]; e.open && r.Request.Limit.IsConcurrency() && (!r.Decision.Allowed || r.Decision.Delay > 0) {
			e.wanted = append(e.wanted, keyOf(r))
		}
	}
	agrees := o.agrees(&rec.Verdict) && (!m.rule || rec.Verdict.Rule == nameOf(cmp.Or(v.Rule, v.Degrade, v.Mark)))
	v.Free()
	if !agrees {
		return o, false
	}
	if o = e.enter(rec, id, logged); e.open && o.kind == waiting && e.entered.turn == 0 {
		e.now, e.entered.outcome.within = now, true
		for e.entered.handled == 0 && e.endLease() {
			continue // the request begins as soon as it has all leases
		}
	}
	return o, true
}

// foreseen decides about a request, and takes nothing.
func (e *engine) foreseen(rec *logs.Record) policy.Verdict {
	e.trials.on = true
	defer func() { e.trials.on = false }()
	return e.verdict(rec)
}

func nameOf(r *policy.Rule) string {
	if r == nil {
		return ""
	}
	return r.Name
}

// foresee returns what becomes of a request by a verdict that took nothing, and the lease that it must wait for.
func (e *engine) foresee(v *policy.Verdict) (o outcome, lease *policy.LimitResult) {
	o = e.outcome(v)
	for i := range v.Results {
		r := &v.Results[i]
		switch {
		case o.kind == denied || !isDelayed(r):
		case r.Decision.Delay > longest(r) || !e.admit(r, 0):
			return outcome{kind: denied, rule: int16(e.index[r.Rule])}, nil
		case r.IsLease():
			o.kind, lease = waiting, r
		case o.kind == allowed:
			o.kind = delayed
		}
	}
	return o, lease
}

// endLease ends the oldest lease of a limit that lets the last request wait or denies it. It returns false if there is none.
func (e *engine) endLease() bool {
	for _, at := range e.wanted {
		for len(e.held[at]) > 0 {
			f := e.held[at][0]
			if e.held[at] = e.held[at][1:]; !f.over {
				f.finish()
				return true
			}
		}
	}
	return false
}

// tryDeferred decides again about the deferred records of which the decisions may have come after one that began at a time.
func (e *engine) tryDeferred(since int64) {
	e.pressed = true
	defer func() { e.pressed = false }()
	for i := len(e.deferred) - 1; i >= 0 && e.deferred[i].rec.At >= since; i-- {
		d := e.deferred[i]
		if o, ok := e.try(d.rec, d.id, d.logged, moment{d.rec.At, latest, false}); ok {
			o.within = true
			e.resolved(d.id, o)
			e.deferred = slices.Delete(e.deferred, i, i+1)
			i = len(e.deferred) // the others may follow from this one
		}
	}
}

// giveUp decides about the deferred records before a time, whatever the log has.
func (e *engine) giveUp(before int64) {
	now := e.now
	e.pressed = true
	for len(e.deferred) > 0 && e.deferred[0].rec.At < before {
		d := e.deferred[0]
		e.deferred = e.deferred[1:]
		e.now = min(now, d.rec.At)
		e.resolved(d.id, e.enter(d.rec, d.id, d.logged))
	}
	e.now, e.pressed = now, false
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

// snapshot is the pressure on the rules before a request was counted.
type snapshot struct {
	at int64 // when the request may have been counted at the latest
	of map[string]float64
}

// feel returns the pressure on a rule. If a verdict is tried with the pressure of an earlier time, it is the pressure before the
// requests that were counted since then.
func (e *engine) feel(rule string) float64 {
	if i := slices.IndexFunc(e.snapshots, func(r snapshot) bool { return r.at >= e.felt }); i >= 0 {
		return e.snapshots[i].of[rule]
	}
	return e.gate.Pressure(rule)
}

// press counts a request for the pressure on rules.
func (e *engine) press(v *policy.Verdict) {
	if !e.pressure || e.pressed {
		return
	}
	if e.exact > 0 {
		r := snapshot{e.now + e.took, map[string]float64{}}
		for rule := range e.index {
			r.of[rule.Name] = e.gate.Pressure(rule.Name)
		}
		for len(e.snapshots) > 0 && e.snapshots[0].at < e.now-2*longestDecision {
			e.snapshots = e.snapshots[1:]
		}
		e.snapshots = append(e.snapshots, r)
	}
	e.gate.Observe(v)
}
