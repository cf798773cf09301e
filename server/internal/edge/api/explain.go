package api

import (
	"net/http"

	"github.com/sluicehq/sluice/server/internal/describe"
)

// Explain is the call POST /v1/explain without authorization. The caller must authorize requests. It answers which
// rules of the policy in force the described request matches, and why it does not match the others. Nothing is counted.
// Remote means that the store is on another machine.
func (a *API) Explain(remote bool) http.Handler {
	return a.handler([]route{{method: http.MethodPost, serve: func(w http.ResponseWriter, r *http.Request) *problem {
		var q request
		if p := decode(r, &q); p != nil {
			return p
		}
		if q.byRule() {
			return invalid("rule", "Only requests can be explained.", "describe a request by its method, path and headers; /v1/peek shows what is left for a key")
		}
		if p := q.check(); p != nil {
			return p
		}
		rules := a.o.Decider.Policy()
		attributes, p := q.attributes(rules)
		if p != nil {
			return p
		}
		t := rules.Trace(attributes)
		writeJSON(w, http.StatusOK, describe.NewExplanation(&t, remote))
		return nil
	}}})
}
