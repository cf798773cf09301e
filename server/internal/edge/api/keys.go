package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// listKeys answers with the keys that were denied lately, and what is left for each of them now.
func (a *API) listKeys(w http.ResponseWriter, r *http.Request) *problem {
	values, p := parameters(r, "rule", "most", "limited")
	if p != nil {
		return p
	}
	limited := values.Get("limited")
	if limited != "" && limited != "true" {
		return invalid("?limited", fmt.Sprintf("%.32q is not true.", limited), "give limited=true for the keys whose next request would be denied, or leave it out")
	}
	rule, most, p := a.listed(values)
	if p != nil {
		return p
	}
	wanted := most
	if limited != "" {
		wanted = mostListed // each key costs one call of the store
	}
	all := a.o.DeniedKeys(r.Context(), rule, wanted)
	denied, reveals := all.Keys, a.o.Reveals(r)
	all.Keys = []wire.DeniedKey{}
	for i := range denied {
		k := &denied[i]
		if k.Key != nil {
			k.Now = a.LeftNow(r.Context(), k)
		}
		if limited != "" && (k.Now == nil || k.Now.Allowed) {
			continue
		}
		if len(all.Keys) == most {
			all.More = true
			break
		}
		if !reveals {
			k.Key = nil
		}
		all.Keys = append(all.Keys, *k)
	}
	if reveals && len(all.Keys) > 0 {
		if p := a.revealed(r, rule); p != nil {
			return p
		}
	}
	writeJSON(w, http.StatusOK, all)
	return nil
}

// revealed records that an operator is about to see the values of keys. After a problem they must not be shown.
func (a *API) revealed(r *http.Request, rule string) *problem {
	c := Change{Action: "reveal", Status: http.StatusOK}
	if rule != "" {
		c.Rules = []string{rule}
	}
	if p := a.begin(r, &c); p != nil {
		p.Detail = "The keys are not shown."
		return p
	}
	a.o.OnChange(r, c)
	return nil
}

// listOf returns a list that is never null in JSON.
func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// LeftNow returns what is left for a key now; nil if that is not known.
func (a *API) LeftNow(ctx context.Context, k *wire.DeniedKey) (left *wire.LeftNow) {
	if k.Key == nil {
		return nil
	}
	v, err := a.o.Decider.DecideRule(ctx, policy.RuleRequest{Rule: k.Rule, Key: k.Key, Plan: k.Plan, Peek: true})
	if err != nil || v.Err != nil {
		return nil
	}
	for i := range v.Results {
		m := &v.Results[i]
		if m.Listed != policy.NotListed || m.Role == policy.RoleCandidate || m.Decision.Degraded {
			continue
		}
		if d := &m.Decision; left == nil || tighter(d, left) {
			left = &wire.LeftNow{
				Allowed: d.Allowed, Reason: d.Reason.String(), Capacity: d.Limit, Remaining: d.Remaining, Waits: waitsOf(d, d.Delay),
				From: a.phrases().LimitResult(m).From, Ahead: m.Ahead != nil,
			}
		}
	}
	return left
}

// tighter reports whether a decision leaves less than another one.
func tighter(d *sluice.Decision, than *wire.LeftNow) bool {
	if d.Allowed != than.Allowed {
		return than.Allowed
	}
	if !d.Allowed && than.RetryAfterMS != nil {
		return ceil(d.RetryAfter, time.Millisecond) > *than.RetryAfterMS
	}
	return d.Allowed && d.Remaining < than.Remaining
}

// listed reads the rule whose keys the caller wants, and how many keys. Keys of all rules are listed for an empty rule.
func (a *API) listed(values url.Values) (rule string, most int, p *problem) {
	if rule = values.Get("rule"); rule != "" && a.o.Decider.Policy().Rule(rule) == nil {
		return "", 0, invalid("?rule", fmt.Sprintf("There is no rule %.64q.", rule), "the rules are "+namesOf(a.o.Decider.Policy().Rules()))
	}
	most, p = lengthOf(values)
	return rule, most, p
}
