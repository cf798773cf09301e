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

// How long reservations stay open.
const (
	defaultTTL = 30 * time.Second
	maxTTL     = time.Hour
	// endTimeout bounds how long the store may take to end a reservation that expired.
	endTimeout = 5 * time.Second
)

// reservation is the body of /v1/reserve.
type reservation struct {
	request
	TTLMS    *int64 `json:"ttl_ms"`
	GiveBack bool   `json:"give_back"`
}

// reserve decides and charges, and opens a token. See docs/adr/0007.
func (a *API) reserve(w http.ResponseWriter, r *http.Request) *problem {
	status, p := deniedStatus(r)
	if p != nil {
		return p
	}
	var q reservation
	if p := decode(r, &q); p != nil {
		return p
	}
	ttl := defaultTTL
	if q.TTLMS != nil {
		ttl = time.Duration(*q.TTLMS) * time.Millisecond
		if *q.TTLMS < 1 || *q.TTLMS > maxTTL.Milliseconds() {
			return invalid("ttl_ms", fmt.Sprintf(`"ttl_ms" is %d.`, *q.TTLMS), fmt.Sprintf("give milliseconds, from 1 to %d", maxTTL.Milliseconds()))
		}
	}
	hold := time.Duration(0)
	if q.GiveBack {
		hold = ttl
	}
	return a.open(w, r, status, &q.request, hold, func(*policy.Verdict, *held) (time.Duration, *problem) { return ttl, nil })
}

// open decides and charges, and opens a token for the charges. The function lifetime returns how long the token lasts;
// after a problem, the charges are given back.
func (a *API) open(w http.ResponseWriter, r *http.Request, status int, q *request, hold time.Duration, lifetime func(*policy.Verdict, *held) (time.Duration, *problem)) *problem {
	// Room for the token is booked before anything is charged, so that every charge has a token.
	caller := callerOf(r)
	if !a.tokens.book(caller) {
		return a.fullHouse()
	}
	v, p := a.decide(r.Context(), a.o.Decider.Store(), q, takeIfAllowed, hold)
	if p != nil || !v.Allowed() {
		a.tokens.unbook(caller)
		if p != nil {
			return p
		}
		a.dropLeases(r.Context(), &v)
		a.writeVerdict(w, status, &v, nil)
		return nil
	}
	h := heldBy(&v, caller)
	ttl, p := lifetime(&v, &h)
	if p != nil {
		a.tokens.unbook(caller)
		a.giveBack(r.Context(), &v)
		return p
	}
	a.writeVerdict(w, status, &v, &opened{Token: a.tokens.open(h, ttl), ExpiresInMS: ttl.Milliseconds()})
	return nil
}

// dropLeases gives back the leases of a verdict whose answer has no token to end them with.
func (a *API) dropLeases(ctx context.Context, v *policy.Verdict) {
	for i := range v.Results {
		if r := &v.Results[i]; r.IsLease() {
			// A lease that is not released ends by its time to live.
			_ = r.GiveBack(ctx, a.o.Decider.Store())
		}
	}
}

// settlement is the body of /v1/settle.
type settlement struct {
	Token string `json:"token"`
	Cost  *int64 `json:"cost"`
}

// ended is the answer of the calls that end reservations.
type ended struct {
	Ended bool `json:"ended"`
	// Charges is the number of limits that had been charged.
	Charges int `json:"charges"`
	// Lost is the number of leases that had ended by themselves before.
	Lost int `json:"lost,omitempty"`
}

// settle replaces the reserved cost by the actual cost.
func (a *API) settle(w http.ResponseWriter, r *http.Request) *problem {
	var s settlement
	if p := decode(r, &s); p != nil {
		return p
	}
	if s.Cost == nil || *s.Cost < 0 || *s.Cost > maxCost {
		return invalid("cost", `"cost" is missing, or not a number of units.`, "give what the work cost in the end, a whole number of 0 or more")
	}
	return a.end(w, r, s.Token, func(ctx context.Context, h held, c charge) error {
		switch {
		case c.Member != 0: // a lease
			return a.o.Decider.Store().Release(ctx, c.Charge, h.lasted())
		case c.fixed:
			return a.keep(ctx, c)
		default:
			return a.o.Decider.Store().Settle(ctx, c.Charge, *s.Cost)
		}
	})
}

// keep leaves a cost charged. A charge with a hold would be given back.
func (a *API) keep(ctx context.Context, c charge) error {
	if !c.held {
		return nil
	}
	return a.o.Decider.Store().Settle(ctx, c.Charge, c.Cost)
}

// cancellation is the body of /v1/cancel.
type cancellation struct {
	Token string `json:"token"`
}

// cancel ends a reservation that was not used, and gives back all of it. The store cancels a charge only before the
// charge acts; afterwards, nothing was used, so the charge is settled at 0.
func (a *API) cancel(w http.ResponseWriter, r *http.Request) *problem {
	var c cancellation
	if p := decode(r, &c); p != nil {
		return p
	}
	return a.end(w, r, c.Token, func(ctx context.Context, h held, c charge) error {
		if c.Member != 0 || time.Now().Before(c.acts) { // a lease, or a charge for a moment in the future
			if err := a.cancelCharge(ctx, h, c); !errors.Is(err, sluice.ErrActed) {
				return err
			}
		}
		return a.o.Decider.Store().Settle(ctx, c.Charge, 0)
	})
}

// cancelCharge gives back a charge unless its work may have begun.
func (a *API) cancelCharge(ctx context.Context, _ held, c charge) error {
	return a.o.Decider.Store().Cancel(ctx, c.Charge)
}

// end ends a reservation, once.
func (a *API) end(w http.ResponseWriter, r *http.Request, token string, end func(context.Context, held, charge) error) *problem {
	if token == "" {
		return invalid("token", `"token" is missing.`, "give the token that /v1/reserve answered")
	}
	h, ok := a.tokens.take(token)
	if !ok {
		return noToken("reservation")
	}
	a.tokens.unbook(h.caller)
	// The token is used up, so the end must finish even if the client leaves.
	ctx := context.WithoutCancel(r.Context())
	answer := ended{Ended: true, Charges: len(h.charges)}
	var errs []error
	for _, c := range h.charges {
		switch err := end(ctx, h, c); {
		case errors.Is(err, sluice.ErrLeaseLost):
			answer.Lost++
		case err != nil:
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return unavailable("The store did not end the whole reservation: "+err.Error()+".",
			"nothing: the token is used up, and what remains is ended by the limits themselves")
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// expire cancels a reservation that its client did not end. Charges for a moment in the future are given
// back, leases are released, and all other charges stay, because the work may have been done. Charges with a hold are given
// back, because the client wants that; if this server dies before, the store does it.
func (a *API) expire(h held) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	for _, c := range h.charges {
		// If the store is down, the charges end when their time is over.
		if c.held {
			_ = a.o.Decider.Store().Settle(ctx, c.Charge, 0)
			continue
		}
		_ = a.cancelCharge(ctx, h, c)
	}
}
