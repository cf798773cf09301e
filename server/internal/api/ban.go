package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// The longest ban by hand: the longest that a store takes.
const maxBanMillis = 100 * 365 * 24 * 60 * 60 * 1000

// banQuestion names a key of a rule.
type banQuestion struct {
	Rule string `json:"rule"`
	Key  texts  `json:"key"`
}

// newBan is a ban to be made.
type newBan struct {
	Rule  string `json:"rule"`
	Key   texts  `json:"key"`
	ForMS *int64 `json:"for_ms"`
}

// banned is the answer to a ban, lifted that to the end of one.
type banned struct {
	Banned bool   `json:"banned"`
	Rule   string `json:"rule"`
	ForMS  int64  `json:"for_ms"`
}

type lifted struct {
	Lifted bool   `json:"lifted"`
	Rule   string `json:"rule"`
}

// bans is a page of the list.
type bans struct {
	Bans []ban  `json:"bans"`
	Next string `json:"next,omitempty"`
}

// ban is one in force.
type ban struct {
	Rule   string   `json:"rule"`
	Limit  string   `json:"limit"`
	Key    []string `json:"key,omitzero"`
	Digest string   `json:"digest,omitempty"`
	LeftMS int64    `json:"left_ms"`
	InRow  int      `json:"in_row,omitempty"`
	ByHand bool     `json:"by_hand,omitempty"`
}

// ban bans a key by hand.
func (a *API) ban(w http.ResponseWriter, r *http.Request) *problem {
	var q newBan
	if p := decode(r, &q); p != nil {
		return p
	}
	switch {
	case q.ForMS == nil:
		return invalid("for_ms", "It is not said for how long.", "give milliseconds, such as 3600000 for an hour")
	case *q.ForMS < 1 || *q.ForMS > maxBanMillis:
		return invalid("for_ms", fmt.Sprintf(`"for_ms" is %d.`, *q.ForMS), fmt.Sprintf("give milliseconds, from 1 to %d", int64(maxBanMillis)))
	}
	if p := a.bannable(q.Rule); p != nil {
		return p
	}
	if err := a.o.Decider.Ban(r.Context(), time.Duration(*q.ForMS)*time.Millisecond, q.Rule, q.Key...); err != nil {
		return a.banProblem(err, "ban")
	}
	writeJSON(w, http.StatusOK, banned{true, q.Rule, *q.ForMS})
	return nil
}

// unban lifts the ban of a key.
func (a *API) unban(w http.ResponseWriter, r *http.Request) *problem {
	var q banQuestion
	if p := decode(r, &q); p != nil {
		return p
	}
	if p := a.bannable(q.Rule); p != nil {
		return p
	}
	found, err := a.o.Decider.LiftBan(r.Context(), q.Rule, q.Key...)
	if err != nil {
		return a.banProblem(err, "lift the ban")
	}
	writeJSON(w, http.StatusOK, lifted{found, q.Rule})
	return nil
}

// bannable reports why keys of a rule cannot be banned.
func (a *API) bannable(name string) *problem {
	if name == "" {
		return invalid("rule", "No rule is named.", "name the rule whose key it is")
	}
	rules := a.o.Decider.Rules()
	i := slices.IndexFunc(rules, func(r *policy.Rule) bool { return r.Name == name })
	if i < 0 || rules[i].Ban != nil {
		return nil // the policy tells that there is none
	}
	return &problem{
		Status: http.StatusConflict, Title: "No bans", Field: "rule",
		Detail: fmt.Sprintf("Rule %q looks after no bans.", name),
		Remedy: "give it a ban in the policy: {by_hand: true}, or terms such as {after: 10, within: 1m, for: 1h}",
	}
}

// listBans answers with a page of the bans in force.
func (a *API) listBans(w http.ResponseWriter, r *http.Request) *problem {
	q, p := banPage(r.URL.Query())
	if p != nil {
		return p
	}
	list, next, err := a.o.Decider.ListBans(r.Context(), q)
	if err != nil {
		var bad *sluice.RequestError
		if errors.As(err, &bad) {
			return invalid("?from", "There is no page there.", `give "next" of an earlier page, or leave it out`)
		}
		return a.banProblem(err, "list the bans")
	}
	page := bans{Bans: make([]ban, len(list)), Next: next}
	for i := range list {
		b := &list[i]
		page.Bans[i] = ban{
			Rule: b.Rule, Limit: b.Limit, Key: b.Values, Digest: b.Digest,
			LeftMS: int64((b.Left + time.Millisecond - 1) / time.Millisecond), InRow: b.InRow, ByHand: b.ByHand,
		}
	}
	writeJSON(w, http.StatusOK, page)
	return nil
}

// banPage reads which page is asked for.
func banPage(values url.Values) (q sluice.BanQuery, p *problem) {
	for name := range values {
		if name != "from" && name != "most" {
			return q, invalid("?"+name, fmt.Sprintf("There is no parameter %q.", name), "the parameters are from and most")
		}
	}
	q.From = values.Get("from")
	if text := values.Get("most"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			return q, invalid("?most", fmt.Sprintf("%q is no size of a page.", text), "give a number from 1 to 1000, or leave it out for 100")
		}
		q.Most = n
	}
	return q, nil
}

// banProblem says why a store did not do what it was asked of bans.
func (a *API) banProblem(err error, what string) *problem {
	var q *policy.RuleRequestError
	switch {
	case errors.As(err, &q):
		return a.questionProblem(err)
	case errors.Is(err, errors.ErrUnsupported):
		return &problem{Status: http.StatusNotImplemented, Title: "Not supported", Detail: "The store has no bans by hand.", Remedy: "use the memory store or Redis"}
	default:
		return unavailable("The store did not "+what+": "+err.Error()+".", "try again later")
	}
}
