package api

import (
	"fmt"
	"net/http"

	"github.com/sluicehq/sluice/policy"
)

// pressurePath is the call for all rules; with a rule's name after it, the call for that rule.
const pressurePath = "/v1/pressure"

// pressures is the pressure on every rule, by the rule's name. Autoscalers select a number in it by a
// path such as "pressures.one-replica".
type pressures struct {
	Pressures map[string]float64 `json:"pressures"`
}

// pressure is the pressure on one rule.
type pressure struct {
	Rule     string  `json:"rule"`
	Pressure float64 `json:"pressure"`
}

// pressure answers with the pressure on the rule that the path names, or on every rule.
func (a *API) pressure(w http.ResponseWriter, r *http.Request) *problem {
	rules := a.o.Decider.Policy().Rules()
	name := r.PathValue("rule")
	if name == "" {
		all := make(map[string]float64, len(rules))
		for _, rule := range rules {
			all[rule.Name] = a.o.Pressure(rule.Name)
		}
		writeJSON(w, http.StatusOK, pressures{all})
		return nil
	}
	for _, rule := range rules {
		if rule.Name == name {
			writeJSON(w, http.StatusOK, pressure{name, a.o.Pressure(name)})
			return nil
		}
	}
	return &problem{
		Status: http.StatusNotFound, Title: "No such rule",
		Detail: fmt.Sprintf("There is no rule %.64q.", name), Remedy: "the rules are " + namesOf(rules),
	}
}

// namesOf lists the first names of rules.
func namesOf(rules []*policy.Rule) string {
	const most = 20
	text := ""
	for i, r := range rules {
		if i > 0 {
			text += ", "
		}
		if i == most {
			return text + "…"
		}
		text += r.Name
	}
	return text
}
