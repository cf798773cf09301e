package api

import (
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// held is what a token stands for.
type held struct {
	charges []charge
	since   time.Time // when the work began, zero before
	ends    time.Time
}

// charge is one of them.
type charge struct {
	sluice.Charge
	// fixed says that the rule names the cost, whatever the client's turns out to be.
	fixed bool
	// lease renews it, if it is one.
	lease *sluice.Request
}

// heldBy returns what a verdict took.
func heldBy(v *policy.Verdict) held {
	h := held{since: time.Now()}
	for i := range v.Results {
		r := &v.Results[i]
		if !r.Charged() {
			continue
		}
		one := charge{Charge: r.Charge(), fixed: r.Rule.Cost.Units != 0 || r.Rule.Cost.Header != ""}
		if r.IsLease() {
			renewal := r.Request
			one.lease = &renewal
		}
		h.charges = append(h.charges, one)
	}
	return h
}

// lasted returns how long the work has lasted.
func (h *held) lasted() time.Duration {
	if h.since.IsZero() {
		return 0
	}
	return time.Since(h.since)
}

// lifetime returns how long the leases last that are held, and whether there are any.
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
