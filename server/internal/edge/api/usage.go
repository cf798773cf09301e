package api

import (
	"context"
	"math"
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
		l := wire.LimitUsage{Limit: x.Limit, Role: x.Role, Listed: x.Listed, From: x.From, Plan: x.Plan, Allowed: d.Allowed, Reason: d.Reason.String(), Capacity: m.Request.Limit.Capacity(), Waits: waitsOf(d, d.Delay), Degraded: d.Degraded}
		if !d.Degraded && m.Listed == policy.NotListed {
			remaining := d.Remaining
			if m.Ahead != nil {
				remaining, l.Ahead = m.Ahead.Left, true
			}
			l.Capacity, l.Remaining = d.Limit, &remaining
			if d.Reason != sluice.ReasonBanned {
				used := max(0, d.Limit-remaining)
				l.Used = &used
			}
		}
		u.Limits = append(u.Limits, l)
	}
	var p *problem
	u.Ahead, p = a.unitsAhead(ctx, q.Rule, q.Key)
	return u, p
}

// LeftNow returns the tightest limit of a key now; nil if that is not known.
func (a *API) LeftNow(ctx context.Context, k *wire.DeniedKey) (left *wire.LimitUsage) {
	if k.Key == nil {
		return nil
	}
	u, p := a.usageOf(ctx, policy.RuleRequest{Rule: k.Rule, Key: k.Key, Plan: k.Plan, Peek: true})
	if p != nil {
		return nil
	}
	if len(u.Limits) == 0 && !u.Allowed { // no limit decides
		left = &wire.LimitUsage{Limit: k.Rule, Role: policy.RoleEnforced.String(), Reason: u.Reason}
		if u.Reason == sluice.ReasonListed.String() {
			left.Listed = policy.ListDeny.String()
		}
	}
	for i := range u.Limits {
		if l := &u.Limits[i]; left == nil || tighter(l, left) {
			left = l
		}
	}
	return left
}

// tighter reports whether a limit leaves less than another one.
func tighter(l, than *wire.LimitUsage) bool {
	number := func(n *int64) int64 {
		if n == nil {
			return math.MaxInt64 // no wait helps, or no number counts
		}
		return *n
	}
	switch {
	case l.Allowed != than.Allowed:
		return than.Allowed
	case l.Allowed:
		return number(l.Remaining) < number(than.Remaining)
	default:
		return number(l.RetryAfterMS) > number(than.RetryAfterMS)
	}
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
