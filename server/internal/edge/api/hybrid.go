package api

import "net/http"

// Hybrid is the call /v1/hybrid without authorization. The caller must authorize requests.
func (a *API) Hybrid() http.Handler { return a.handler(a.hybridCalls()) }

func (a *API) hybridCalls() []route { return []route{{method: http.MethodGet, serve: a.listHybrid}} }

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
