package policy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy/internal/patterns"
)

// New compiles a policy. The error joins a *RuleError for each mistake.
func New(o Options) (*Policy, error) {
	c := &compiler{options: o, index: -1, earlier: o.Earlier.sameLimits()}
	return c.policy()
}

// Single compiles a policy of one rule. The rule needs no name. Its limits keep their own names, which
// must differ because state is kept under them. Single is for programs that have limits and a key, and
// no rules.
// The error joins a *RuleError for each mistake.
func Single(r Rule) (*Policy, error) {
	c := &compiler{options: Options{Rules: []Rule{r}, OnStoreError: r.OnStoreError}, index: -1, single: true}
	return c.policy()
}

func (c *compiler) policy() (*Policy, error) {
	o := c.options
	if o.Default != Allow && o.Default != Deny {
		c.report("Default", "", fault{"is unknown", "give Allow or Deny"})
	}
	if o.OnStoreError > sluice.FallbackLocal {
		c.report("OnStoreError", "", fault{"is unknown", "give FallbackAllow, FallbackDeny or FallbackLocal"})
	}
	if o.IPv6Prefix < 0 || o.IPv6Prefix > 128 {
		c.report("IPv6Prefix", "", is(o.IPv6Prefix, "give 1 to 128"))
	}
	if o.IPv6Prefix == 0 {
		c.options.IPv6Prefix = 64
	}
	if o.OnStoreError == sluice.FallbackDefault {
		c.options.OnStoreError = sluice.FallbackAllow
	}
	if o.Shadow {
		c.options.Default = Allow
	}
	c.form = o.Paths.form()
	p := &Policy{
		paths: c.form, fallback: c.options.Default, onStoreError: c.options.OnStoreError, pressure: o.Pressure,
		classes: c.compileClasses(), byName: make(map[string]*rule, len(o.Rules)),
	}
	c.compilePlans(p)
	c.addDomains(p)
	headers, marks := map[string]bool{}, map[string]bool{removal.Marked: true}
	for i := range o.Rules {
		r := c.compile(i, &o.Rules[i])
		if p.byName[r.Name] != nil {
			c.report("Name", r.Name, fault{"is the name of another rule too", "give each rule its own, because its state is kept under it"})
		}
		p.byName[r.Name] = r
		p.rules = append(p.rules, r)
		if r.Match.Descriptor != nil {
			c.addDescriptor(p, r)
		} else {
			for j := range r.match.patterns {
				p.index.add(newPatternID(i, j), &r.match.patterns[j], r.match)
			}
		}
		collectHeaders(headers, &r.WhenLimited)
		if r.WhenLimited.Action == Mark {
			collectHeaders(marks, &r.WhenLimited)
		}
	}
	p.requestHeaders, p.markHeaders = slices.Sorted(maps.Keys(headers)), slices.Sorted(maps.Keys(marks))
	headers[removal.Marked], headers[removal.Degraded] = true, true
	p.reserved = slices.Sorted(maps.Keys(headers))
	c.checkPressures(p)
	p.setReads()
	p.setModels()
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	if c.single && p.rules[0].isPlain() {
		p.plain = p.rules[0]
	}
	return p, nil
}

func (c *compiler) compile(i int, given *Rule) *rule {
	if !c.single {
		c.index, c.rule = i, given.Name
	}
	r := &rule{Rule: *given, index: i}
	r.Shadow = r.Shadow || c.options.Shadow
	if !patterns.IsName(r.Name) && (!c.single || r.Name != "") {
		c.report("Name", r.Name, nameFault(r.Name))
	}
	r.match = c.newMatcher(&r.Match, "Match.")
	c.checkDescriptor(r)
	own := len(r.Key) > 0
	switch {
	case own:
	case r.Match.Descriptor != nil:
		r.Key = descriptorKey(r.Match.Descriptor)
	case r.Always:
		r.Key = []Part{Global()}
	}
	r.parts = c.newParts(&r.Rule, r.match)
	r.Key = r.parts
	if r.Match.Descriptor != nil {
		c.setEntries(r, own)
		r.MaxWait = sluice.NoWait
	}
	r.WhenLimited.check(r.Name, c.report)
	r.role = roleOf(&r.Rule)
	c.checkStatuses(&r.Rule)
	c.checkLimits(r)
	r.Cost.defaultSource()
	r.Limits, r.Candidate = c.nameLimits(&r.Rule, "Limits", r.Limits), c.nameLimits(&r.Rule, "Candidate", r.Candidate)
	c.checkReserved(r)
	c.checkNumbers(r)
	c.checkAhead(r)
	c.checkQueue(&r.Rule)
	if r.Bandwidth != nil {
		bandwidth := *r.Bandwidth
		r.Bandwidth = &bandwidth
		r.Bandwidth.check(c.report)
	}
	if r.OnStoreError == sluice.FallbackDefault {
		r.OnStoreError = c.options.OnStoreError
	}
	if r.OnStoreError > sluice.FallbackLocal {
		c.report("OnStoreError", "", fault{"is unknown", "give FallbackAllow, FallbackDeny or FallbackLocal"})
	}
	r.limits = c.newSet(r, c.always(r), FromRule)
	if len(r.parts) > 0 {
		c.addLists(r)
		c.addOverrides(r)
		if len(r.Limits) > 0 {
			r.byCall, r.lazily = c.options.Overrides.get(r.Name), c.lazily()
			c.addAhead(r)
		}
	}
	return r
}

// checkLimits checks that a rule limits or paces something.
func (c *compiler) checkLimits(r *rule) {
	switch {
	case r.Always && (len(r.Limits)+len(r.Candidate)+len(r.Reserved) > 0 || r.hasOverrides()):
		c.report("Always", "", fault{"is set, so limits, candidates, overrides and reserves have no effect", "leave it out, or them"})
	case r.LimitsFor != nil && (!c.single || len(r.Reserved) > 0):
		c.report("LimitsFor", "", fault{"is for a rule of Single without reserves", "leave it out, or give overrides"})
	case r.LimitsFor != nil:
	case len(r.Limits) > 0 || r.Always || r.Unlimited || r.Exempt:
	case r.Bandwidth == nil:
		c.report("Limits", "", fault{"are missing", "give one or more"})
	case len(r.Candidate) > 0 || r.hasOverrides() || r.WhenLimited.Action.advisory():
		c.report("Limits", "", fault{"are missing", "give one or more: a rule that has only a bandwidth takes no candidates or overrides, and cannot degrade or mark"})
	}
}

// always returns the limits of a rule. For a rule that is Always limited, it returns a limit that is
// never used, because each result names a limit.
func (c *compiler) always(r *rule) []*sluice.Limit {
	if !r.Always || !patterns.IsName(r.Name) {
		return r.Limits
	}
	return []*sluice.Limit{sluice.MustLimit(r.Name, sluice.FixedWindow{Rate: sluice.PerDay(1)})}
}

// checkNumbers checks the numbers that a rule adds to its limits: floor, cost, wait and ban.
func (c *compiler) checkNumbers(r *rule) {
	capacity := int64(math.MaxInt64)
	for _, l := range r.Limits {
		capacity = min(capacity, l.Capacity()-max(r.Floor, c.reserved(r, l, noClass)))
	}
	if r.Floor < 0 {
		c.report("Floor", "", is(r.Floor, "give 0 or more"))
	}
	c.checkFloors(r, "a limit of the rule", slices.Concat(r.Limits, r.Candidate))
	if capacity < 1 || r.Overdraw {
		capacity = math.MaxInt64 // reported, or no bound
	}
	c.checkOwing(r, r.Limits)
	r.Cost.check(capacity, c.report)
	switch {
	case r.MaxWait < 0 && r.MaxWait != sluice.NoWait:
		c.report("MaxWait", "", is(r.MaxWait, "give a time, or sluice.NoWait for none"))
	case r.MaxWait > 0 && r.WhenLimited.Action.advisory():
		c.report("MaxWait", "", fault{fmt.Sprintf("is %v, and a rule that degrades or marks does not delay requests", r.MaxWait), "leave it out"})
	}
	if r.WhenLimited.Action.advisory() {
		// A request that would have to wait is degraded or marked at once.
		r.MaxWait = sluice.NoWait
	}
	if r.Ban != nil {
		ban := *r.Ban
		r.Ban = &ban
		c.checkBan(r.Ban)
	}
	c.checkShared(&r.Rule)
	c.checkHybrid(r)
}

// checkHybrid checks that the store may decide about the limits of a rule ahead of time.
func (c *compiler) checkHybrid(r *rule) {
	if r.Ban == nil {
		return
	}
	for field, limits := range map[string][]*sluice.Limit{"Limits": r.Limits, "Candidate": r.Candidate} {
		i := slices.IndexFunc(limits, func(l *sluice.Limit) bool { return l.Hybrid() != nil })
		if i >= 0 {
			c.report(fmt.Sprintf("%s[%d].Hybrid", field, i), "", fault{
				"is given, and the rule has a ban, which is in force on all servers from the next request on: only the store can decide so",
				"leave one of them out, or give the ban to a rule that matches fewer requests",
			})
		}
	}
}

func (c *compiler) checkBan(b *sluice.Ban) {
	all, ok := b.Check().(interface{ Unwrap() []error })
	if !ok {
		return // nil
	}
	for _, err := range all.Unwrap() {
		var bad *sluice.BanError
		if errors.As(err, &bad) {
			c.report("Ban."+bad.Field, "", fault{bad.Problem, bad.Remedy})
		}
	}
}

// isPlain reports whether a rule decides each request only by one limit and its key.
func (r *rule) isPlain() bool {
	for i := range r.parts {
		switch p := &r.parts[i]; p.Source {
		case source.Path, source.Param, source.Route:
			if p.Value == nil {
				return false // the path has variants
			}
		}
	}
	return reflect.ValueOf(r.Match).IsZero() && len(r.limits.requests) == 1 && !r.Always && !r.hasLists && r.overrides.IsEmpty() && len(r.Reserved) == 0 &&
		r.LimitsFor == nil && r.Cost.Source != CostModel && r.Bandwidth == nil && r.role == RoleEnforced
}

// checkPressures checks the rules whose pressure others use.
func (c *compiler) checkPressures(p *Policy) {
	for _, q := range c.pressures {
		c.index, c.rule = q.index, q.rule
		switch {
		case q.index >= 0 && q.of == q.rule:
			c.report(q.field, q.of, fault{"is the rule itself, which has no pressure while it matches no request", "give another rule"})
		case p.byName[q.of] == nil:
			c.report(q.field, q.of, fault{"is not a rule of the policy", "give the name of one"})
		}
	}
}

// sameLimits returns all limits of a policy, with the limits of overrides. A policy that replaces it keeps them.
func (p *Policy) sameLimits() map[sameLimit]*sluice.Limit {
	if p == nil {
		return nil
	}
	known := map[sameLimit]*sluice.Limit{}
	add := func(set *limitSet) {
		for i := range set.requests {
			known[identityOf(set.requests[i].Limit)] = set.requests[i].Limit
		}
	}
	for _, r := range p.rules {
		add(r.limits)
		for i := range r.plans {
			add(r.plans[i][FromPlan])
		}
		for _, set := range r.overrides.Values() {
			if set != nil {
				add(set)
			}
		}
	}
	return known
}
