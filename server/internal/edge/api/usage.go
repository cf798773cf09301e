package api

import (
	"context"
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// usage answers with what a key of a rule has used. It takes nothing, and the store keeps nothing about the key.
func (a *API) usage(w http.ResponseWriter, r *http.Request) *problem {
	values, p := parameters(r, "rule", "key", "plan")
	if p != nil {
		return p
	}
	u, p := a.usageOf(r.Context(), policy.RuleRequest{Rule: values.Get("rule"), Key: values["key"], Plan: values.Get("plan"), Peek: true})
	if p != nil {
		return inQuery(p)
	}
	writeJSON(w, http.StatusOK, u)
	return nil
}

// usageOf returns what a key of a rule has used of each limit that counts. Candidates do not.
func (a *API) usageOf(ctx context.Context, q policy.RuleRequest) (*wire.Usage, *problem) {
	v, err := a.o.Decider.DecideRule(ctx, q)
	if err == nil {
		err = v.Err
	}
	if err != nil {
		return nil, a.requestProblem(err)
	}
	u := &wire.Usage{Rule: q.Rule, Allowed: v.Allowed(), Reason: v.Reason.String(), UnknownPlan: v.UnknownPlan, Limits: []wire.LimitUsage{}}
	for i := range v.Results {
		m := &v.Results[i]
		d := &m.Decision
		if m.Role == policy.RoleCandidate {
			continue
		}
		x := a.phrases().LimitResult(m)
		l := wire.LimitUsage{Limit: x.Limit, Role: x.Role, Listed: x.Listed, From: x.From, Plan: x.Plan, Allowed: d.Allowed, Reason: d.Reason.String(), Capacity: m.Request.Limit.Capacity(), Waits: waitsOf(d, d.Delay)}
		if !d.Degraded && m.Listed == policy.NotListed && d.Reason != sluice.ReasonBanned {
			remaining := d.Remaining
			if m.Ahead != nil {
				remaining, l.Ahead = m.Ahead.Left, true
			}
			used := max(0, d.Limit-remaining)
			l.Capacity, l.Used, l.Remaining = d.Limit, &used, &remaining
		}
		u.Limits = append(u.Limits, l)
	}
	var p *problem
	u.Ahead, p = a.unitsAhead(ctx, q.Rule, q.Key)
	return u, p
}

// unitsAhead returns what a key of a rule has ahead; nil for nothing that counts.
func (a *API) unitsAhead(ctx context.Context, rule string, key []string) (*wire.AheadUsage, *problem) {
	x, remaining, found, err := a.o.Decider.Policy().Allowance(ctx, a.o.Decider.Store(), rule, key...)
	switch {
	case err != nil:
		return nil, a.requestProblem(err)
	case !found:
		return nil, nil
	}
	return &wire.AheadUsage{Units: x.Units, Used: max(0, x.Units-remaining), Remaining: remaining, Until: x.Until.UTC()}, nil
}
