package api

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// given is the units that a caller gives back, or ahead.
type given struct {
	keyOfRule
	Units *int64 `json:"units"`
	Ahead bool   `json:"ahead,omitempty"`
	ending
	Note string `json:"note,omitempty"`
}

// grant gives units back to a key of a rule, or ahead, and answers with what is left.
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
	k, err := a.o.Decider.Policy().KeyOf(q.Rule, q.Key...)
	switch {
	case err != nil:
		return a.requestProblem(err)
	case q.Ahead:
		return a.grantAhead(w, r, c, &q, k)
	case q.ForMS != nil || q.Until != nil:
		return invalid("ahead", "Units that come back have no end.", `leave "for_ms" and "until" out, or give "ahead": true`)
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
		return unknown(err, "The units were not given back", "what is left with /v1/usage")
	}
	a.answerUsage(w, r, q.Rule, q.Key)
	return nil
}

// answerUsage answers with what a key has used after a change.
func (a *API) answerUsage(w http.ResponseWriter, r *http.Request, rule string, key []string) {
	u, p := a.usageOf(r.Context(), policy.RuleRequest{Rule: rule, Key: key, Peek: true})
	if p != nil { // what is left is not known; a problem would make the caller repeat the call
		u = &wire.Usage{Rule: rule, Reason: sluice.ReasonStoreError.String(), Limits: []wire.LimitUsage{}}
	}
	writeJSON(w, http.StatusOK, u)
}

// aheadOf returns the bound of a rule for units ahead.
func (a *API) aheadOf(name string) (*policy.Ahead, *problem) {
	if r := a.o.Decider.Policy().Rule(name); r != nil && r.Ahead != nil {
		return r.Ahead, nil
	}
	return nil, &problem{
		Status: http.StatusConflict, Title: "Not supported", Field: "rule", Detail: fmt.Sprintf("Rule %q names no bound for units ahead.", name),
		Remedy: `give the rule one, such as ahead: {units: 1000, for: 24h}, set an override, or leave "ahead" out: then used units come back`,
	}
}

// aheadUntil returns when units ahead end.
func aheadUntil(q *given, bound *policy.Ahead, now time.Time) (until time.Time, p *problem) {
	until, p = q.end(now)
	switch {
	case p != nil:
		return until, p
	case until.IsZero():
		return now.Add(bound.For + time.Second - 1).Truncate(time.Second).UTC(), nil
	case until.Sub(now) >= bound.For+time.Second:
		return until, beyond("until", fmt.Sprintf("Rule %q gives units ahead for %v at most.", q.Rule, bound.For), "give an earlier end, or leave it out; ahead.for of the rule is the bound")
	}
	return until, nil
}

// beyond returns the problem of a value beyond a bound of the rule.
func beyond(field, detail, remedy string) *problem {
	return &problem{Status: http.StatusUnprocessableEntity, Title: "Beyond the bound", Field: field, Detail: detail, Remedy: remedy}
}

// grantAhead gives units ahead to a key of a rule: they are added to what it has ahead, and the later end counts.
func (a *API) grantAhead(w http.ResponseWriter, r *http.Request, c *Change, q *given, k sluice.Key) *problem {
	c.Action = "ahead"
	if p := tooLong(k); p != nil {
		return p
	}
	bound, p := a.aheadOf(q.Rule)
	if p != nil {
		return p
	}
	now := time.Now()
	until, p := aheadUntil(q, bound, now)
	if p != nil {
		return p
	}
	c.For = until.Sub(now)
	if p := a.begin(r, c); p != nil {
		return p
	}
	err := a.o.Overrides.Update(r.Context(), policy.AllowancesOf(q.Rule), k, func(o wire.KeptOverride) (wire.KeptOverride, error) {
		x, err := policy.ParseAllowance(o.Terms)
		if o.Removed || err != nil {
			x = policy.Allowance{ID: rand.Text()[:16]}
		}
		if *q.Units > bound.Units-x.Units {
			return o, beyond("units", fmt.Sprintf("The key has %d units ahead, used ones included, and rule %q gives %d at most.", x.Units, q.Rule, bound.Units),
				fmt.Sprintf("give at most %d now, or set an override; ahead.units of the rule is the bound", max(0, bound.Units-x.Units)))
		}
		x.Units += *q.Units
		if x.Until.Before(until) {
			x.Until = until
		}
		return wire.KeptOverride{
			Rule: policy.AllowancesOf(q.Rule), Key: k, Terms: x.String(), Until: x.Until, Note: c.Note, By: printed(r.Header.Get("Sluice-Operator"), 128), At: now,
		}, nil
	})
	switch {
	case errors.As(err, &p):
		return p
	case err != nil:
		return unknown(err, "The units were not given", "what the key has ahead with /v1/usage")
	}
	a.answerUsage(w, r, q.Rule, q.Key)
	return nil
}

// withdraw takes back what a key has ahead.
func (a *API) withdraw(w http.ResponseWriter, r *http.Request, c *Change) *problem {
	var q keyOfRule
	if p := decode(r, &q); p != nil {
		return p
	}
	a.of(c, q.Rule, q.Key)
	k, err := a.listedKey(r.Context(), q.Rule, policy.AllowancesOf(q.Rule), q.Key)
	if err != nil {
		return a.requestProblem(err)
	}
	if _, p := a.aheadOf(q.Rule); p != nil {
		return p
	}
	if p := a.begin(r, c); p != nil {
		return p
	}
	if _, err := a.o.Overrides.Change(r.Context(), []wire.KeptOverride{{Rule: policy.AllowancesOf(q.Rule), Key: k, Removed: true}}); err != nil {
		return unavailable("The units were not taken back, or that is not known: "+err.Error()+".", "repeat the call; the second time changes nothing more")
	}
	a.answerUsage(w, r, q.Rule, q.Key)
	return nil
}
