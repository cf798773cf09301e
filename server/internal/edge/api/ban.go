package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/wire"
)

// maxBanMillis bounds a ban by hand, as stores do: 100 years.
const maxBanMillis = 100 * 365 * 24 * 60 * 60 * 1000

// keyOfRule names a key of a rule.
type keyOfRule struct {
	Rule string `json:"rule"`
	Key  texts  `json:"key"`
}

// newBan is the ban that a caller wants.
type newBan struct {
	keyOfRule
	ForMS *int64 `json:"for_ms"`
}

// banned is the answer to a ban, and lifted the answer to the end of a ban.
type banned struct {
	Banned bool   `json:"banned"`
	Rule   string `json:"rule"`
	ForMS  int64  `json:"for_ms"`
}

type lifted struct {
	Lifted bool   `json:"lifted"`
	Rule   string `json:"rule"`
}

// ban bans a key by hand.
func (a *API) ban(w http.ResponseWriter, r *http.Request, c *Change) *problem {
	var q newBan
	if p := decode(r, &q); p != nil {
		return p
	}
	a.of(c, q.Rule, q.Key)
	if q.ForMS == nil {
		return invalid("for_ms", "The length of the ban is missing.", "give milliseconds, such as 3600000 for an hour")
	}
	var p *problem
	if c.For, p = lengthOfChange(*q.ForMS); p != nil {
		return p
	}
	if p := a.bannable(q.Rule); p != nil {
		return p
	}
	if p := a.begin(r, c); p != nil {
		return p
	}
	if err := a.o.Decider.Ban(r.Context(), c.For, q.Rule, q.Key...); err != nil {
		return a.banProblem(err, "ban")
	}
	writeJSON(w, http.StatusOK, banned{true, q.Rule, *q.ForMS})
	return nil
}

// lengthOfChange reads for how long a ban or an override lasts.
func lengthOfChange(ms int64) (time.Duration, *problem) {
	if ms < 1 || ms > maxBanMillis {
		return 0, invalid("for_ms", fmt.Sprintf(`"for_ms" is %d.`, ms), fmt.Sprintf("give milliseconds, from 1 to %d", int64(maxBanMillis)))
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// unban lifts the ban of a key.
func (a *API) unban(w http.ResponseWriter, r *http.Request, c *Change) *problem {
	var q keyOfRule
	if p := decode(r, &q); p != nil {
		return p
	}
	a.of(c, q.Rule, q.Key)
	if p := a.bannable(q.Rule); p != nil {
		return p
	}
	if p := a.begin(r, c); p != nil {
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
	switch rule := a.o.Decider.Policy().Rule(name); {
	case rule == nil:
		return a.requestProblem(&policy.RuleRequestError{Rule: name, Unknown: true})
	case rule.Ban != nil:
		return nil
	}
	return &problem{
		Status: http.StatusConflict, Title: "No bans", Field: "rule",
		Detail: fmt.Sprintf("The keys of rule %q cannot be banned.", name),
		Remedy: "give the rule a ban in the policy: {by_hand: true}, or terms such as {after: 10, within: 1m, for: 1h}",
	}
}

// listBans answers with a page of the bans in force.
func (a *API) listBans(w http.ResponseWriter, r *http.Request) *problem {
	values, p := parameters(r, "from", "most")
	if p != nil {
		return p
	}
	most, p := lengthOf(values)
	if p != nil {
		return p
	}
	list, next, err := a.o.Decider.ListBans(r.Context(), sluice.BanQuery{From: values.Get("from"), Most: most})
	if err != nil {
		var bad *sluice.RequestError
		if errors.As(err, &bad) {
			return invalid("?from", "There is no such page.", `give "next" of an earlier page, or leave it out`)
		}
		return a.banProblem(err, "list the bans")
	}
	page := wire.Bans{Bans: make([]wire.Ban, len(list)), Next: next}
	for i := range list {
		page.Bans[i] = listedBan(&list[i])
	}
	writeJSON(w, http.StatusOK, page)
	return nil
}

// FirstBans returns the first bans in force, and whether there are more. The error is of the store. Their digests are
// fingerprints, as in the log; empty if the store does not keep the key.
func (a *API) FirstBans(ctx context.Context, most int) (bans []wire.Ban, more bool, err error) {
	list, next, err := a.o.Decider.ListBans(ctx, sluice.BanQuery{Most: most})
	for i := range list {
		b := listedBan(&list[i])
		b.Digest = ""
		if k, err := a.o.Decider.Policy().KeyOf(b.Rule, b.Key...); err == nil && b.Key != nil {
			b.Digest = a.o.Fingerprint(k)
		}
		bans = append(bans, b)
	}
	return bans, next != "", err
}

// listedBan returns a ban as calls list it.
func listedBan(b *policy.BannedKey) wire.Ban {
	return wire.Ban{
		Rule: b.Rule, Limit: b.Limit, Key: b.Values, Digest: b.Digest,
		LeftMS: int64((b.Left + time.Millisecond - 1) / time.Millisecond), InRow: b.InRow, ByHand: b.ByHand,
	}
}

// banProblem returns the problem of a call about bans that failed.
func (a *API) banProblem(err error, what string) *problem {
	var q *policy.RuleRequestError
	switch {
	case errors.As(err, &q):
		return a.requestProblem(err)
	case errors.Is(err, errors.ErrUnsupported):
		return &problem{Status: http.StatusNotImplemented, Title: "Not supported", Detail: "The store does not support bans by hand.", Remedy: "use the memory store or Redis"}
	default:
		return unavailable("The store did not "+what+": "+err.Error()+".", "try again later")
	}
}
