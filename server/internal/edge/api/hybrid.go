package api

import "net/http"

// listHybrid answers with the hybrid limits, and the keys with the most granted units.
func (a *API) listHybrid(w http.ResponseWriter, r *http.Request) *problem {
	values, p := parameters(r, "rule", "most")
	if p != nil {
		return p
	}
	rule, most, p := a.listed(values)
	if p != nil {
		return p
	}
	h := a.o.Hybrid(rule, most)
	h.Limits, h.Keys = listOf(h.Limits), listOf(h.Keys)
	writeJSON(w, http.StatusOK, h)
	return nil
}
