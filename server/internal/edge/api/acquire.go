package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// acquire decides and charges, and opens a token for the leases of concurrency limits. The token lives as
// long as the leases, and is renewed with them.
func (a *API) acquire(w http.ResponseWriter, r *http.Request) *problem {
	status, p := deniedStatus(r)
	if p != nil {
		return p
	}
	var q request
	if p := decode(r, &q); p != nil {
		return p
	}
	return a.open(w, r, status, &q, 0, func(v *policy.Verdict, h *held) (time.Duration, *problem) {
		ttl, leases := h.lifetime()
		if !leases {
			return 0, &problem{
				Status: http.StatusConflict, Title: "Nothing to hold",
				Detail: "No concurrency limit applies to the request, so there is no lease to acquire; its charges have been given back.",
				Remedy: "call /v1/check or /v1/reserve, or add a limit of algorithm concurrency to a rule that matches",
			}
		}
		if v.Delay > 0 {
			h.since = time.Time{} // the work waits in the queue
		}
		return ttl, nil
	})
}

// giveBack gives back the charges of a verdict that has no effect.
func (a *API) giveBack(ctx context.Context, v *policy.Verdict) {
	for i := range v.Results {
		// A charge that cannot be given back admits too little, not too much.
		_ = v.Results[i].GiveBack(ctx, a.o.Decider.Store())
	}
}

// renewed is the answer of /v1/renew.
type renewed struct {
	Renewed bool `json:"renewed"`
	// DelayMS is the estimated wait in the queue; 0 if the work may run.
	DelayMS     int64 `json:"delay_ms"`
	ExpiresInMS int64 `json:"expires_in_ms"`
}

// renew prolongs the leases of a token.
func (a *API) renew(w http.ResponseWriter, r *http.Request) *problem {
	var c cancellation
	if p := decode(r, &c); p != nil {
		return p
	}
	if c.Token == "" {
		return invalid("token", `"token" is missing.`, "give the token that /v1/acquire answered")
	}
	h, ok := a.tokens.take(c.Token)
	if !ok {
		return noToken("hold")
	}
	ttl, leases := h.lifetime()
	if !leases {
		a.tokens.put(c.Token, h)
		return &problem{
			Status: http.StatusConflict, Title: "Nothing to renew", Field: "token",
			Detail: "The reservation holds no lease of a concurrency limit.", Remedy: "settle or cancel it within its ttl_ms",
		}
	}
	// While it is out of the table, it neither expires nor is ended by another call.
	ctx := context.WithoutCancel(r.Context())
	delay, err := a.renewAll(ctx, &h)
	switch {
	case errors.Is(err, sluice.ErrLeaseLost):
		a.tokens.unbook(h.caller)
		a.expire(h)
		return &problem{
			Status: http.StatusConflict, Title: "The lease was lost", Field: "token",
			Detail: "A lease had ended before it was renewed. The other leases of the token are released.",
			Remedy: "stop the work, or acquire again; renew at half of expires_in_ms",
		}
	case err != nil:
		a.tokens.put(c.Token, h)
		return unavailable("The store did not renew all leases: "+err.Error()+".", "renew again before they end")
	}
	if delay == 0 && h.since.IsZero() {
		h.since = time.Now()
	}
	h.ends = time.Now().Add(ttl)
	a.tokens.put(c.Token, h)
	writeJSON(w, http.StatusOK, renewed{Renewed: true, DelayMS: ceil(delay, time.Millisecond), ExpiresInMS: ttl.Milliseconds()})
	return nil
}

// renewAll renews the leases of a token, and returns the longest delay.
func (a *API) renewAll(ctx context.Context, h *held) (delay time.Duration, err error) {
	for i := range h.charges {
		c := &h.charges[i]
		if c.lease == nil {
			continue
		}
		d, err := a.o.Decider.Store().Decide(ctx, *c.lease)
		if err != nil {
			return 0, err
		}
		if !d.Allowed {
			return 0, sluice.ErrLeaseLost
		}
		c.Charge = c.lease.Charge(&d)
		delay = max(delay, d.Delay)
	}
	return delay, nil
}

// release releases the leases of a token; all other charges stay.
func (a *API) release(w http.ResponseWriter, r *http.Request) *problem {
	var c cancellation
	if p := decode(r, &c); p != nil {
		return p
	}
	return a.end(w, r, c.Token, func(ctx context.Context, h held, c charge) error {
		switch {
		case c.lease == nil:
			return a.keep(ctx, c)
		case h.since.IsZero(): // the work never ran, so its duration is unknown
			return a.o.Decider.Store().Cancel(ctx, c.Charge)
		default:
			return a.o.Decider.Store().Release(ctx, c.Charge, time.Since(h.since))
		}
	})
}

// fullHouse is the problem of a table that has no room for more tokens.
func (a *API) fullHouse() *problem {
	return &problem{
		Status: http.StatusServiceUnavailable, Title: "Too many reservations",
		Detail: fmt.Sprintf("There may be %d open reservations, and this caller has as many as are free, or more.", a.o.MaxTokens),
		Remedy: "settle, cancel or release reservations when their work is done, and give a shorter ttl_ms",
	}
}

// noToken is the problem of a token that is not open.
func noToken(what string) *problem {
	return &problem{
		Status: http.StatusNotFound, Title: "No such " + what, Field: "token",
		Detail: "The token was used before, has expired, or never existed.",
		Remedy: "end each " + what + " once, within expires_in_ms",
	}
}

// held is what a token holds.
type held struct {
	caller  string // the caller whose room it takes
	charges []charge
	since   time.Time // when the work began; zero before
	ends    time.Time
}

// charge is one charge of a token.
type charge struct {
	sluice.Charge
	// fixed means that the rule names the cost, whatever the work costs in the end.
	fixed bool
	// held means that the store gives the charge back unless it is settled.
	held bool
	// acts is the moment at which the charge acts: after its delay.
	acts time.Time
	// lease is the request that renews the charge, nil unless the charge is a lease.
	lease *sluice.Request
}

// heldBy returns the charges of a verdict.
func heldBy(v *policy.Verdict, caller string) held {
	h := held{caller: caller, since: time.Now()}
	for i := range v.Results {
		r := &v.Results[i]
		if !r.Charged() {
			continue
		}
		one := charge{Charge: r.Charge(), fixed: r.Rule.Cost.Units != 0 || r.Rule.Cost.Header != "", acts: h.since.Add(r.Decision.Delay), held: r.Request.Hold > 0}
		if r.IsLease() {
			renewal := r.Request
			one.lease = &renewal
		}
		h.charges = append(h.charges, one)
	}
	return h
}

// lasted returns how long the work has been running.
func (h *held) lasted() time.Duration {
	if h.since.IsZero() {
		return 0
	}
	return time.Since(h.since)
}

// lifetime returns the shortest time to live of the leases, and whether there are leases.
func (h *held) lifetime() (ttl time.Duration, leases bool) {
	for i := range h.charges {
		if h.charges[i].lease == nil {
			continue
		}
		if one := h.charges[i].Limit.LeaseTTL(); !leases || one < ttl {
			ttl, leases = one, true
		}
	}
	return ttl, leases
}
