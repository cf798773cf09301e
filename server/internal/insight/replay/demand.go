package replay

import (
	"context"
	"errors"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/insight/logs"
)

// Wish is what a request wants of a rule.
type Wish struct {
	At   int64 // microseconds of Unix time
	Rule int   // the index of the rule among the evaluated ones
	Key  sluice.Key
	Cost int64 // after the response, if that decides it
}

// Scope is what Wishes read.
type Scope struct {
	Rules       []string // the names of the evaluated rules
	Unevaluated []Unevaluated
	Stats       logs.Stats
}

// Wishes reads a log, and calls each for what its requests want of the rules of Options.Policy, in the order of time.
// Nothing is limited. If the context ends, it returns the context's error.
func Wishes(ctx context.Context, o Options, each func(Wish)) (*Scope, error) {
	reader, err := o.read()
	if err != nil {
		return nil, err
	}
	o.alone = true
	r := &run{o: o, layout: reader.Layout()}
	scope := &Scope{}
	if err = r.start(); err == nil {
		scope.read(ctx, r, reader, each)
		err = ctx.Err()
	}
	scope.Stats = reader.Stats()
	return scope, errors.Join(err, reader.Err(), reader.Close())
}

func (s *Scope) read(ctx context.Context, r *run, reader *logs.Reader, each func(Wish)) {
	e := r.engines[0]
	s.Unevaluated = r.tally.unevaluated[0]
	for _, rule := range e.policy.Rules() {
		s.Rules = append(s.Rules, rule.Name)
	}
	for rs := (logs.Records{}); ctx.Err() == nil && reader.Next(&rs, batchSize); {
		for i := range rs.All {
			e.wishes(&rs.All[i], each)
		}
		r.progress(reader.Stats())
	}
}

// wishes calls each for what a request wants.
func (e *engine) wishes(rec *logs.Record, each func(Wish)) {
	v := e.foreseen(rec)
	defer v.Free()
	end := endOf(rec, isLimited(rec))
	last := -1
	for i := range v.Results {
		m := &v.Results[i]
		at, ok := e.index[m.Rule]
		if !ok || at == last || m.Listed != policy.NotListed || m.Request.Limit == nil || m.Role == policy.RoleCandidate {
			continue
		}
		last = at
		if cost := m.Actual(end); cost > 0 {
			each(Wish{At: rec.At, Rule: at, Key: m.Request.Key, Cost: cost})
		}
	}
}
