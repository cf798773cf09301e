package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// given is the units that a caller gives back.
type given struct {
	Rule  string `json:"rule"`
	Key   texts  `json:"key"`
	Units *int64 `json:"units"`
	Note  string `json:"note,omitempty"`
}

// Grant is the call POST /v1/grant without authorization. The caller must authorize requests.
func (a *API) Grant() http.Handler { return a.handler(a.grantCalls()) }

func (a *API) grantCalls() []route {
	r := a.changing(http.MethodPost, "grant", a.grant)
	r.serve = a.idempotent(r.serve)
	return []route{r}
}

// grant gives units back to a key of a rule, and answers with what is left.
func (a *API) grant(w http.ResponseWriter, r *http.Request, c *Change) *problem {
	var q given
	if p := decode(r, &q); p != nil {
		return p
	}
	a.of(c, q.Rule, q.Key)
	c.Note = printed(q.Note, mostNote)
	switch {
	case q.Rule == "":
		return invalid("rule", "The name of the rule is missing.", "name the rule whose key it is")
	case q.Units == nil:
		return invalid("units", "The units are missing.", "give how many units come back, such as 100")
	case *q.Units < 1 || *q.Units > maxCost:
		return invalid("units", fmt.Sprintf(`"units" is %d.`, *q.Units), fmt.Sprintf("give a whole number from 1 to %d; to take units, call /v1/debit", int64(maxCost)))
	case c.Note != q.Note:
		return badNote(q.Note)
	}
	c.Units = *q.Units
	if _, err := a.o.Decider.Policy().KeyOf(q.Rule, q.Key...); err != nil {
		return a.requestProblem(err)
	}
	if p := a.begin(r, c); p != nil {
		return p
	}
	switch err := a.o.Decider.GiveBack(r.Context(), *q.Units, q.Rule, q.Key...); {
	case errors.Is(err, errors.ErrUnsupported):
		return &problem{
			Status: http.StatusConflict, Title: "Not supported", Field: "rule", Detail: fmt.Sprintf("A limit of rule %q cannot take units back.", q.Rule),
			Remedy: "reset the key, or set an override; a leaky bucket gives each unit its moment, and a concurrency limit has leases",
		}
	case err != nil:
		return unavailable("The units were not given back, or that is not known: "+err.Error()+".", "see what is left with /v1/usage before you repeat the call")
	}
	u, p := a.usageOf(r.Context(), policy.RuleRequest{Rule: q.Rule, Key: q.Key, Peek: true})
	if p != nil { // what is left is not known; a problem would make the caller repeat the call
		u = &wire.Usage{Rule: q.Rule, Reason: sluice.ReasonStoreError.String(), Limits: []wire.LimitUsage{}}
	}
	writeJSON(w, http.StatusOK, u)
	return nil
}
