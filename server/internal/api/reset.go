package api

import (
	"net/http"

	"github.com/sluicehq/sluice/policy"
)

// resets is the answer to a reset.
type resets struct {
	Reset bool `json:"reset"`
	// Rules are the rules whose state was forgotten.
	Rules []string `json:"rules"`
}

// reset forgets what a key has used, by a rule's name and key or by the request
// that would meet it.
func (a *API) reset(w http.ResponseWriter, r *http.Request) *problem {
	var q question
	if p := decode(r, &q); p != nil {
		return p
	}
	if p := q.check(); p != nil {
		return p
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"cost", q.Cost != nil}, {"max_wait_ms", q.MaxWaitMS != nil}} {
		if f.set {
			return invalid(f.name, "A reset forgets all that was used.", "leave it out")
		}
	}
	answer := resets{Reset: true, Rules: []string{}}
	if q.byRule() {
		if err := a.o.Decider.ResetRule(r.Context(), q.Rule, q.Key...); err != nil {
			return a.questionProblem(err)
		}
		answer.Rules = append(answer.Rules, q.Rule)
		writeJSON(w, http.StatusOK, answer)
		return nil
	}
	attributes, p := q.attributes()
	if p != nil {
		return p
	}
	var last *policy.Rule
	for _, m := range a.o.Decider.Meets(attributes) {
		if err := a.o.Store.Reset(r.Context(), m.Request.Limit, m.Request.Key); err != nil {
			return unavailable("The store did not reset all limits: "+err.Error()+".", "try again later")
		}
		if m.Rule != last {
			last = m.Rule
			answer.Rules = append(answer.Rules, m.Rule.Name)
		}
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}
