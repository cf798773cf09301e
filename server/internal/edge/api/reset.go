package api

import "net/http"

// resets is the answer to a reset.
type resets struct {
	Reset bool `json:"reset"`
	// Rules are the rules whose keys were reset.
	Rules []string `json:"rules"`
}

// reset forgets the state of a key. The caller gives a rule and a key, or a request: then the keys of all
// rules that match it are reset.
func (a *API) reset(w http.ResponseWriter, r *http.Request, c *Change) *problem {
	var q request
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
			return invalid(f.name, "A reset has no such field.", "leave it out")
		}
	}
	answer := resets{Reset: true, Rules: []string{}}
	if q.byRule() {
		a.of(c, q.Rule, q.Key)
		if p := a.begin(r, c); p != nil {
			return p
		}
		if err := a.o.Decider.Reset(r.Context(), q.Rule, q.Key...); err != nil {
			return a.requestProblem(err)
		}
		answer.Rules = append(answer.Rules, q.Rule)
		writeJSON(w, http.StatusOK, answer)
		return nil
	}
	attributes, p := q.attributes(a.o.Decider.Policy())
	if p != nil {
		return p
	}
	matches := a.o.Decider.Policy().LimitsFor(attributes)
	for _, m := range matches {
		if n := len(c.Rules); n == 0 || c.Rules[n-1] != m.Rule.Name {
			c.Rules = append(c.Rules, m.Rule.Name)
		}
		c.Key = a.o.Fingerprint(m.Request.Key)
	}
	if p := a.begin(r, c); p != nil {
		return p
	}
	answer.Rules = append(answer.Rules, c.Rules...)
	for _, m := range matches {
		if err := a.o.Decider.Store().Reset(r.Context(), m.Request.Limit, m.Request.Key); err != nil {
			return unavailable("The store did not reset all limits: "+err.Error()+".", "try again later")
		}
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}
