package api

import (
	"net/http"
	"time"
)

// Change is what a call did to keys, or tried to do.
type Change struct {
	// Action is ban, unban, reset, grant, ahead, withdraw, override or unset.
	Action string
	// Rules are the rules whose keys were changed. If the caller named a rule, it is the only one.
	Rules []string
	// Key has the fingerprint of the key; empty if the caller named no key of a known rule.
	Key string
	// For is the length of a ban, or of an override or of units ahead, that end.
	For time.Duration
	// Units are the units that were given back, or ahead.
	Units int64
	// Terms are the numbers of an override, and Note is the note of an override or of units.
	Terms, Note string
	// Status is the status of the answer, and Problem the title of the problem; empty if there is none.
	Status  int
	Problem string
}

// changing makes a call that changes keys, and reports each change.
func (a *API) changing(method, action string, serve func(http.ResponseWriter, *http.Request, *Change) *problem) route {
	return route{method: method, change: action, serve: func(w http.ResponseWriter, r *http.Request) *problem {
		c := Change{Action: action, Status: http.StatusOK}
		p := serve(w, r, &c)
		if p != nil {
			c.Status, c.Problem = p.Status, p.Title
		}
		a.o.OnChange(r, c)
		return p
	}}
}

// begin reports a change that is about to be made. A problem means that it must not be made.
func (a *API) begin(r *http.Request, c *Change) *problem {
	if err := a.o.BeforeChange(r, *c); err != nil {
		return &problem{Status: http.StatusServiceUnavailable, Title: "Not recorded", Detail: "Nothing was changed.", Remedy: err.Error()}
	}
	return nil
}

// of sets the rule and the key of a change.
func (a *API) of(c *Change, rule string, key []string) {
	if a.o.Decider.Policy().Rule(rule) == nil {
		return // it may be anything
	}
	c.Rules = []string{rule}
	if k, err := a.o.Decider.Policy().KeyOf(rule, key...); err == nil {
		c.Key = a.o.Fingerprint(k)
	}
}
