package policy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// maxOverrides bounds the rates of a domain that are in use at once. Stores keep a record of each limit as long as a state refers to
// it.
const maxOverrides = 1 << 14

// overrides are the limits that came with the descriptors of a domain, as rules. A policy that replaces another
// one keeps them. A limit is dropped only when no state under it can differ from a fresh state. So a store never has more of them,
// whatever rates come.
type overrides struct {
	name   string
	onFail Fallback
	shadow bool
	most   int
	now    func() int64 // in seconds
	byRate sync.Map     // from sluice.Rate to *override

	mu    sync.Mutex // of changes
	kept  int
	swept int64 // when it was last searched for unused limits
}

// override is the rule for limits of a rate.
type override struct {
	*rule
	used atomic.Int64 // when it was used last, in seconds
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
	began := time.Now()
	return &overrides{
		name: "(override) " + domain, onFail: o.OnStoreError, shadow: o.Shadow, most: maxOverrides,
		now: func() int64 { return int64(time.Since(began) / time.Second) },
	}
}

// rule returns the rule for limits of a rate. The error is an *AttributeError.
func (o *overrides) rule(rate sluice.Rate) (*rule, error) {
	now := o.now()
	if known, ok := o.byRate.Load(rate); ok {
		known := known.(*override)
		if known.used.Load() != now {
			known.used.Store(now)
		}
		return known.rule, nil
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
	return o.keep(rate, r, now)
}

// keep keeps the rule for limits of a rate, if there is room for it.
func (o *overrides) keep(rate sluice.Rate, r *rule, now int64) (*rule, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, ok := o.byRate.Load(rate); ok {
		return known.(*override).rule, nil
	}
	if o.kept >= o.most {
		o.sweep(now)
	}
	if o.kept >= o.most {
		return nil, &AttributeError{
			Attribute: "limit", Problem: fmt.Sprintf("of a descriptor is one too many: %d rates of the domain are in use", o.kept),
			Remedy: "give descriptors fewer different limits, or try again when the periods of the others are over",
		}
	}
	made := &override{rule: r}
	made.used.Store(now)
	o.byRate.Store(rate, made)
	o.kept++
	return r, nil
}

// sweep drops the limits whose states have become fresh, at most once a second.
func (o *overrides) sweep(now int64) {
	if now == o.swept {
		return
	}
	o.swept = now
	o.byRate.Range(func(rate, known any) bool {
		// A second because times are whole seconds, and one more for a decision under way.
		over := known.(*override)
		if full := int64(over.Limits[0].TimeToFull()/time.Second) + 2; now-over.used.Load() > full {
			o.byRate.Delete(rate)
			o.kept--
		}
		return true
	})
}
