package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy/internal/tree"
)

// domain is the rules of a domain as a tree, and the limits that came with its descriptors. See docs/adr/0039.
type domain struct {
	rules     tree.Node[*rule]
	overrides *overrides
}

// find returns the rule that a descriptor matches, nil for none.
func (d *domain) find(entries []descriptors.Entry) *rule {
	n := &d.rules
	for i := range entries {
		if n = n.Follow(entries[i].Key, entries[i].Value); n == nil {
			return nil
		}
	}
	return n.Leaf
}

// addDomains makes the domains that the options name.
func (c *compiler) addDomains(p *Policy) {
	for i, name := range c.options.Domains {
		if name == "" {
			c.report(fmt.Sprintf("Domains[%d]", i), "", fault{"is empty", "give the name of a domain, or leave it out"})
		}
		c.domain(p, name)
	}
}

// domain returns a domain of the policy, and makes it if it is new.
func (c *compiler) domain(p *Policy, name string) *domain {
	d := p.domains[name]
	if d != nil {
		return d
	}
	d = &domain{overrides: c.overridesOf(name)}
	if p.domains == nil {
		p.domains = map[string]*domain{}
	}
	p.domains[name] = d
	return d
}

// addDescriptor adds a rule to the tree of its domain.
func (c *compiler) addDescriptor(p *Policy, r *rule) {
	n := &c.domain(p, r.Match.Descriptor.Domain).rules
	for _, e := range r.Match.Descriptor.Entries {
		n = n.Add(e.Key, e.Value)
	}
	if n.Leaf != nil {
		c.report("Match.Descriptor", "", fault{fmt.Sprintf("is the descriptor of rule %q too", n.Leaf.Name), "leave one of the rules out"})
		return
	}
	n.Leaf = r
}

// descriptorKey returns the key of a rule that has a descriptor and no key: all values that no entry fixes.
func descriptorKey(d *descriptors.Pattern) []Part {
	var parts []Part
	for i := range d.Entries {
		if e := &d.Entries[i]; e.Varies() && !e.Shared {
			parts = append(parts, Part{Source: source.Descriptor, Name: e.Key})
		}
	}
	if parts == nil {
		return []Part{Global()}
	}
	return parts
}

// setEntries finds the entry of each part of a descriptor's key. The second part of a name is the second entry of
// that name that varies.
func (c *compiler) setEntries(r *rule, own bool) {
	r.entries = make([]int, len(r.parts))
	entries, next := r.Match.Descriptor.Entries, map[string]int{}
	for i := range r.parts {
		part := &r.parts[i]
		if part.Source != source.Descriptor {
			if part.Source != source.Constant {
				c.report(fmt.Sprintf("Key[%d]", i), part.String(), fault{"is a part of requests, and the rule matches descriptors", "give descriptor:KEY or a constant"})
			}
			continue
		}
		from := next[part.Name]
		at := slices.IndexFunc(entries[from:], func(e descriptors.PatternEntry) bool {
			return e.Key == part.Name && e.Varies() && (own || !e.Shared)
		})
		if at < 0 {
			c.report(fmt.Sprintf("Key[%d]", i), part.String(), fault{"is the value of no entry, or the entry has one value", "name the key of an entry without a value, or with a wildcard"})
			continue
		}
		r.entries[i] = from + at
		next[part.Name] = from + at + 1
	}
}

// checkDescriptor checks a rule that matches descriptors.
func (c *compiler) checkDescriptor(r *rule) {
	d := r.Match.Descriptor
	if d == nil {
		if r.Unlimited || r.Exempt {
			c.report("Unlimited", "", fault{"is for rules that match descriptors: rules that match requests are independent of each other", "leave the rule out, or give the other rules an exception"})
		}
		return
	}
	rest := r.Match
	rest.Descriptor = nil
	if !isZeroMatch(&rest) {
		c.report("Match.Descriptor", "", fault{"is given together with conditions on requests", "leave the other conditions out"})
	}
	if d.Domain == "" {
		c.report("Match.Descriptor.Domain", "", fault{"is missing", "give the domain that the gateway names"})
	}
	if len(d.Entries) == 0 {
		c.report("Match.Descriptor.Entries", "", fault{"are missing", "give one or more"})
	}
	for i := range d.Entries {
		c.checkEntry(fmt.Sprintf("Match.Descriptor.Entries[%d].", i), &d.Entries[i])
	}
	for i, label := range d.Replaces {
		switch at := fmt.Sprintf("Match.Descriptor.Replaces[%d]", i); label {
		case "":
			c.report(at, "", fault{"is empty", "give the label of another rule, or leave it out"})
		case d.Label:
			c.report(at, label, fault{"is the rule's own label", "give the label of another rule"})
		}
	}
	if d.Period < 0 || d.Period%time.Microsecond != 0 {
		c.report("Match.Descriptor.Period", "", is(d.Period, "give 1 µs or more, in whole microseconds"))
	}
	c.checkUnlimited(r)
	c.checkUnused(r)
}

// checkOwing reports limits that cannot owe units, if the rule's requests leave debts.
func (c *compiler) checkOwing(r *rule, limits []*sluice.Limit) {
	field := "Overdraw"
	switch {
	case r.debits() && r.Overdraw:
		c.report(field, "", fault{"is set, and the rule debits descriptors, which takes their cost whatever is left", "leave it out"})
		return
	case r.debits():
		field = "Match.Descriptor.Debit"
	case !r.Overdraw:
		return
	}
	for _, l := range limits {
		if l != nil && !l.TakesDebits() {
			c.report(field, "", fault{fmt.Sprintf("is set, and %v cannot owe units", l.Algorithm()), "leave it out, or give another algorithm"})
			return
		}
	}
}

func (c *compiler) checkEntry(at string, e *descriptors.PatternEntry) {
	switch {
	case e.Key == "":
		c.report(at+"Key", "", fault{"is missing", "give the key of the entry"})
	case strings.Contains(e.Key, "*"):
		c.report(at+"Key", e.Key, fault{"has a star", "give the star in the value: keys are compared exactly"})
	case e.Shared && !strings.Contains(e.Value, "*"):
		c.report(at+"Shared", "", fault{"is set, and the value has no star", "leave it out, or give a value such as \"files*\""})
	}
}

func (c *compiler) checkUnlimited(r *rule) {
	field := "Unlimited"
	if r.Exempt {
		field = "Exempt"
	}
	switch {
	case !r.Unlimited && !r.Exempt:
	case r.Unlimited && r.Exempt:
		c.report(field, "", fault{"is set, and Unlimited too", "leave one of them out"})
	case r.Always || len(r.Limits)+len(r.Candidate) > 0 || r.hasOverrides():
		c.report(field, "", fault{"is set, so limits, candidates and overrides have no effect", "leave it out, or them"})
	}
}

// checkUnused reports fields that have no effect on descriptors.
func (c *compiler) checkUnused(r *rule) {
	const remedy = "leave it out"
	if r.MaxWait > 0 {
		c.report("MaxWait", "", fault{"is given, and a gateway that sends descriptors does not wait", remedy})
	}
	if r.Bandwidth != nil {
		c.report("Bandwidth", "", fault{"is given, and descriptors have no bytes to pace", remedy})
	}
	if len(r.CountStatus) > 0 {
		c.report("CountStatus", "", fault{"is given, and descriptors have no response", remedy})
	}
	if len(r.Reserved) > 0 {
		c.report("Reserved", "", fault{"is given, and descriptors have no class", "give a floor to the rules of less important descriptors"})
	}
	for field, networks := range map[string]int{"AllowIPs": len(r.AllowIPs), "DenyIPs": len(r.DenyIPs)} {
		if networks > 0 {
			c.report(field, "", fault{"is given, and descriptors have no client address", "list keys instead"})
		}
	}
	if r.Cost.Source > CostConstant || r.Cost.Header != "" || r.Cost.Function != nil {
		c.report("Cost", "", fault{"is not constant, and the cost of a descriptor comes with it", "give the same cost for each hit, or leave it out"})
	}
	c.checkLeases(r)
}

// checkLeases reports limits that grant leases.
func (c *compiler) checkLeases(r *rule) {
	for field, limits := range map[string][]*sluice.Limit{"Limits": r.Limits, "Candidate": r.Candidate} {
		for i, l := range limits {
			if l != nil && l.IsConcurrency() {
				c.report(fmt.Sprintf("%s[%d]", field, i), "", fault{"grants leases, and nobody releases the lease of a descriptor", "give another algorithm"})
			}
		}
	}
}

// isZeroMatch reports whether a match has no conditions.
func isZeroMatch(m *Match) bool {
	return len(m.Paths)+len(m.Methods)+len(m.Hosts)+len(m.Headers)+len(m.Cookies)+len(m.Queries)+len(m.Attributes)+
		len(m.ClientIPs)+len(m.Classes)+len(m.If)+len(m.Unless) == 0 && m.Marked == nil && m.Pressure == 0 && m.PressureOf == ""
}

// maxOverrides bounds the rates of a domain that are in use at once. Stores keep a record of each limit as long as a
// state refers to it.
const maxOverrides = 1 << 14

// overrides are the limits that came with the descriptors of a domain, as rules. A policy that replaces another one
// keeps them. A limit is dropped only when no state under it can differ from a fresh state. So a store never has more
// of them, whatever rates come.
type overrides struct {
	name   string
	onFail sluice.Fallback
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
		Name: o.name, Match: Match{Descriptor: &descriptors.Pattern{}}, Key: []Part{Global()}, Shadow: o.shadow, OnStoreError: o.onFail,
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
	r.limits = &limitSet{requests: []sluice.Request{{Limit: l, Shadow: o.shadow, Debit: true}}, kinds: []limitKind{{role: r.role}}, from: FromFile}
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
