package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// Usage is the call GET /v1/usage for the admin listener.
func (a *API) Usage() http.Handler { return a.handler(a.usageCalls()) }

func (a *API) usageCalls() []route {
	return []route{{method: http.MethodGet, serve: a.usage}}
}

// usage answers with what a key of a rule has used. It takes nothing, and the store keeps nothing about the key.
func (a *API) usage(w http.ResponseWriter, r *http.Request) *problem {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("?", "The parameters cannot be read.", "escape them, as in ?rule=per-user&key=ann%20lee")
	}
	for name := range values {
		if name != "rule" && name != "key" && name != "plan" {
			return invalid("?"+name, fmt.Sprintf("There is no parameter %.64q.", name), "the parameters are rule, key for each value of the rule's key, and plan")
		}
	}
	if len(values["rule"]) != 1 || values.Get("rule") == "" {
		return invalid("?rule", "The name of the rule is missing, or there are several.", "name one rule whose key it is")
	}
	if len(values["plan"]) > 1 {
		return invalid("?plan", "There are several plans.", "name the plan of the requests, or leave it out")
	}
	u, p := a.usageOf(r.Context(), policy.RuleRequest{Rule: values.Get("rule"), Key: values["key"], Plan: values.Get("plan"), Peek: true})
	if p != nil {
		p.Field = "?" + p.Field
		return p
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
	u := &wire.Usage{Rule: q.Rule, Allowed: v.Allowed(), Reason: v.Reason.String(), Limits: []wire.LimitUsage{}}
	for i := range v.Results {
		m := &v.Results[i]
		d := &m.Decision
		if m.Role == policy.RoleCandidate {
			continue
		}
		x := a.phrases().LimitResult(m)
		l := wire.LimitUsage{Limit: x.Limit, Role: x.Role, Listed: x.Listed, From: x.From, Plan: x.Plan, Allowed: d.Allowed, Reason: d.Reason.String(), Capacity: m.Request.Limit.Capacity(), Waits: waitsOf(d, d.Delay)}
		if !d.Degraded && m.Listed == policy.NotListed && d.Reason != sluice.ReasonBanned {
			used := max(0, d.Limit-d.Remaining)
			l.Capacity, l.Used, l.Remaining = d.Limit, &used, &d.Remaining
		}
		u.Limits = append(u.Limits, l)
	}
	return u, nil
}
