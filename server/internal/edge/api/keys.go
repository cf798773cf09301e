package api

import (
	"fmt"
	"net/http"
	"net/url"

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
			all.Degraded = all.Degraded || k.Now != nil && k.Now.Degraded
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

// listed reads the rule whose keys the caller wants, and how many keys. Keys of all rules are listed for an empty rule.
func (a *API) listed(values url.Values) (rule string, most int, p *problem) {
	if rule = values.Get("rule"); rule != "" && a.o.Decider.Policy().Rule(rule) == nil {
		return "", 0, invalid("?rule", fmt.Sprintf("There is no rule %.64q.", rule), "the rules are "+namesOf(a.o.Decider.Policy().Rules()))
	}
	most, p = lengthOf(values)
	return rule, most, p
}
