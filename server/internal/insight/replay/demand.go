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
	Layout      logs.Layout
	Stats       logs.Stats
}

// Wishes reads a log, and calls each for what its requests want of the rules of Options.Policy, in the order of time.
// Nothing is limited. If the context ends, it returns the context's error.
func Wishes(ctx context.Context, o Options, each func(Wish)) (*Scope, error) {
	wanted, err := o.Policy.Wanted()
	if err != nil {
		return nil, err
	}
	o.Logs.Wanted = wanted
	reader, err := logs.Open(o.Logs)
	if err != nil {
		return nil, err
	}
	scope := &Scope{Layout: *reader.Layout()}
	if err := o.check(&scope.Layout); err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	err = scope.read(ctx, &o, reader, each)
	scope.Stats = reader.Stats()
	return scope, errors.Join(err, reader.Err(), reader.Close())
}

func (s *Scope) read(ctx context.Context, o *Options, reader *logs.Reader, each func(Wish)) error {
	cover := &coverage{layout: &s.Layout, assumed: o.Assumed}
	within, left, err := cover.within(o.Policy.Options)
	if err != nil {
		return err
	}
	s.Unevaluated = left
	e, err := newEngine(o.Policy, within, &s.Layout, o.Assumed)
	if err != nil {
		return err
	}
	for _, r := range e.policy.Rules() {
		s.Rules = append(s.Rules, r.Name)
	}
	for rs := (logs.Records{}); ctx.Err() == nil && reader.Next(&rs, batchSize); {
		for i := range rs.All {
			e.wishes(&rs.All[i], each)
		}
		if st := reader.Stats(); o.Progress != nil {
			o.Progress(st.Read, st.Total, st.Lines)
		}
	}
	return ctx.Err()
}

// wishes calls each for what a request wants.
func (e *engine) wishes(rec *logs.Record, each func(Wish)) {
	v := e.foreseen(rec)
	defer v.Free()
	end := policy.Outcome{Status: rec.Status, RequestBytes: max(0, rec.Received), ResponseBytes: max(0, rec.Sent), Unknown: isLimited(rec)}
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
