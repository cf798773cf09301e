package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy"
)

// taking says what a call takes.
type taking uint8

const (
	takeIfAllowed taking = iota
	takeNothing
	takeAlways
)

// check decides and charges.
func (a *API) check(w http.ResponseWriter, r *http.Request) *problem {
	return a.answer(w, r, takeIfAllowed)
}

// peek answers as check would, and charges nothing.
func (a *API) peek(w http.ResponseWriter, r *http.Request) *problem {
	return a.answer(w, r, takeNothing)
}

// debit charges whatever is left.
func (a *API) debit(w http.ResponseWriter, r *http.Request) *problem {
	return a.answer(w, r, takeAlways)
}

func (a *API) answer(w http.ResponseWriter, r *http.Request, take taking) *problem {
	status, p := deniedStatus(r)
	if p != nil {
		return p
	}
	var q request
	batch, p := decodeQuestions(r, &q)
	switch {
	case p != nil:
		return p
	case batch != nil && status != http.StatusOK:
		return invalid("?status", "A batch has no status for denials.", `leave status out, and read "allowed" of each decision`)
	case batch != nil:
		a.answerAll(r.Context(), w, batch, take)
		return nil
	}
	v, p := a.decide(r.Context(), a.o.Decider.Store(), &q, take, 0)
	if p != nil {
		return p
	}
	a.dropLeases(r.Context(), &v)
	a.writeVerdict(w, status, &v, nil)
	return nil
}

// decide decides about the request of a caller. The verdict is observed here and not after a gate,
// because the client carries it out. A peek is not observed, because it lets no request pass. What is charged is given back
// after the hold, if any, unless it is settled.
func (a *API) decide(ctx context.Context, store sluice.Store, q *request, take taking, hold time.Duration) (policy.Verdict, *problem) {
	if p := q.check(); p != nil {
		return policy.Verdict{}, p
	}
	peek := take == takeNothing
	if q.byRule() {
		rq := policy.RuleRequest{Rule: q.Rule, Key: q.Key, Plan: q.Plan, MaxWait: q.maxWait(), Hold: hold, Peek: peek, Debit: take == takeAlways}
		if q.Cost != nil {
			rq.Cost = *q.Cost
		}
		began := time.Now()
		v, err := a.o.Decider.Policy().DecideRule(ctx, store, rq)
		if err == nil && !peek {
			a.o.OnVerdict(&v, time.Since(began))
		}
		return v, a.requestProblem(err)
	}
	if take == takeAlways {
		return policy.Verdict{}, invalid("rule", `"rule" is missing.`, `name the rule to debit, and give its "key": other rules that match the work may count in other units`)
	}
	attributes, p := q.attributes(a.o.Decider.Policy())
	if p != nil {
		return policy.Verdict{}, p
	}
	attributes.Hold = hold
	if peek {
		v := a.o.Decider.Policy().Peek(ctx, store, attributes)
		return v, refusedProblem(v.Refused)
	}
	began := time.Now()
	v := a.o.Decider.Policy().Decide(ctx, store, attributes)
	a.o.OnVerdict(&v, time.Since(began))
	return v, refusedProblem(v.Refused)
}

// requestProblem returns what the policy found wrong with a request about a rule.
func (a *API) requestProblem(err error) *problem {
	if err == nil {
		return nil
	}
	var bad *sluice.RequestError
	if errors.As(err, &bad) {
		return invalid("rule", fmt.Sprintf("The limit %q: %s.", bad.Limit, bad.Problem), "debit a rule whose limits can owe units")
	}
	var q *policy.RuleRequestError
	if !errors.As(err, &q) {
		return unavailable("The store did not answer.", "try again later")
	}
	if q.Rule == "" {
		return invalid("rule", "The name of the rule is missing.", "name the rule whose key it is")
	}
	if !q.Unknown {
		return invalid("key", fmt.Sprintf("Rule %q: %s.", q.Rule, q.Problem), a.keyOf(q.Rule))
	}
	return invalid("rule", fmt.Sprintf("There is no rule %q.", q.Rule), "the rules are "+namesOf(a.o.Decider.Policy().Rules()))
}

// keyOf lists the parts of a rule's key.
func (a *API) keyOf(name string) string {
	var parts []string
	for _, r := range a.o.Decider.Policy().Rules() {
		if r.Name != name {
			continue
		}
		for _, p := range r.Key {
			if p.Source != source.Constant {
				parts = append(parts, p.String())
			}
		}
	}
	if len(parts) == 0 {
		return "the rule has one budget for everybody: give an empty list, or no key"
	}
	return "give one value for each of: " + strings.Join(parts, ", ")
}

// deniedStatus returns the status for denials that the caller wants.
func deniedStatus(r *http.Request) (int, *problem) {
	if r.URL.RawQuery == "" {
		return http.StatusOK, nil
	}
	const remedy = "give status=429, or another one from 400 to 599, or leave it out for 200"
	values := r.URL.Query()
	for name := range values {
		if name != "status" {
			return 0, invalid("?"+name, fmt.Sprintf("There is no parameter %q.", name), "the only parameter is status; put the request into the body")
		}
	}
	text := values.Get("status")
	if text == "" {
		return http.StatusOK, nil
	}
	status, err := strconv.Atoi(text)
	if err != nil || status < 400 || status > 599 {
		return 0, invalid("?status", fmt.Sprintf("The status %q is not a status for denials.", text), remedy)
	}
	return status, nil
}

// writeVerdict writes the decision of a verdict, with what a reservation adds, nil for none.
func (a *API) writeVerdict(w http.ResponseWriter, denied int, v *policy.Verdict, o *opened) {
	e := a.decisionOf(v, maxAnswer)
	e.opened = o
	status := http.StatusOK
	if !v.Allowed() {
		status = denied
		if status != http.StatusOK && e.RetryAfterSeconds != nil {
			w.Header().Set("Retry-After", strconv.FormatInt(*e.RetryAfterSeconds, 10))
		}
	}
	writeDecision(w, status, &e)
}
