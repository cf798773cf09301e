package policy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// maxOverrides bounds the rates of a domain whose limits are kept. Limits of further rates are made for each call.
const maxOverrides = 1000

// overrides are the limits that came with the descriptors of a domain, as rules. A policy that replaces another
// one keeps them.
type overrides struct {
	name   string
	onFail Fallback
	shadow bool
	byRate sync.Map // from sluice.Rate to *rule
	kept   atomic.Int64
}

// overridesOf returns the limits that came with the descriptors of a domain. It reuses the limits that an earlier
// policy has made.
func (c *compiler) overridesOf(domain string) *overrides {
	o := &c.options
	if o.Earlier != nil && o.Earlier.domains[domain] != nil {
		if e := o.Earlier.domains[domain].overrides; e.onFail == o.OnStoreError && e.shadow == o.Shadow {
			return e
		}
	}
	// No rule of a policy has such a name.
	return &overrides{name: "(override) " + domain, onFail: o.OnStoreError, shadow: o.Shadow}
}

// rule returns the rule for limits of a rate. The error is an *AttributeError.
func (o *overrides) rule(rate sluice.Rate) (*rule, error) {
	if known, ok := o.byRate.Load(rate); ok {
		return known.(*rule), nil
	}
	r := &rule{Rule: Rule{
		Name: o.name, Match: Match{Descriptor: &Descriptor{}}, Key: []Part{Global()}, Shadow: o.shadow, OnStoreError: o.onFail,
	}}
	r.role = roleOf(&r.Rule)
	if rate.Count() == 0 {
		r.Always, r.Match.Descriptor.Period = true, max(rate.Period(), time.Microsecond)
		rate = sluice.PerDay(1) // never used
	}
	// Units per minute and units per hour are counted apart.
	l, err := sluice.NewLimit(o.name+"/"+rate.Period().String(), sluice.FixedWindow{Rate: rate})
	if err != nil {
		return nil, &AttributeError{Attribute: "limit", Problem: "of a descriptor is invalid: " + err.Error(), Remedy: "give a count and a unit"}
	}
	r.Limits, r.parts = []*sluice.Limit{l}, r.Key
	r.limits = &limitSet{requests: []sluice.Request{{Limit: l, Shadow: o.shadow, Debit: true}}, kinds: []limitKind{{role: r.role}}, override: true}
	if r.Always {
		return r, nil
	}
	if o.kept.Load() >= maxOverrides {
		return r, nil
	}
	known, loaded := o.byRate.LoadOrStore(rate, r)
	if !loaded {
		o.kept.Add(1)
	}
	return known.(*rule), nil
}
