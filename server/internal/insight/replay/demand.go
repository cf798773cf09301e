package replay

import (
	"context"
	"errors"
	"math"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
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
	e, err := newEngine(o.Policy, within, &s.Layout, o.Assumed, math.MinInt64/2)
	if err != nil {
		return err
	}
	for _, r := range e.policy.Rules() {
		s.Rules = append(s.Rules, r.Name)
	}
	var rec logs.Record
	for n := 0; reader.Next(&rec); n++ {
		if n%1024 == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if o.Progress != nil {
				st := reader.Stats()
				o.Progress(st.Read, st.Total, st.Lines)
			}
		}
		if !e.request.set(&rec) {
			continue
		}
		a := httplimit.Attributes(&e.request.Request, e.ip)
		if v, ok := a.Values.(policy.RepeatableValues); ok {
			a.Values = named{v, e.request}
		}
		a.TrustPlan = true
		results := e.policy.LimitsFor(&a)
		end := policy.Outcome{Status: rec.Status, RequestBytes: max(0, rec.Received), ResponseBytes: max(0, rec.Sent), Unknown: isLimited(&rec)}
		last := -1
		for i := range results {
			m := &results[i]
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
	return ctx.Err()
}

// named are the values of a request with the claims and attributes of its record.
type named struct {
	policy.RepeatableValues
	q *request
}

func (v named) Read(s policy.Source, name string) policy.Found {
	if text, ok := v.q.claims[name]; ok && s == policy.FromClaim {
		return policy.Found{First: text, Last: text, Count: policy.CountOne}
	}
	return v.RepeatableValues.Read(s, name)
}

func (v named) Attribute(name string) (string, bool) {
	text, ok := v.q.values[name]
	return text, ok
}
