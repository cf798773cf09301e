package policy

import (
	"fmt"
	"maps"
	"net/textproto"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/descriptors"
	"github.com/sluicehq/sluice/internal/source"
	"github.com/sluicehq/sluice/policy/internal/keys"
	"github.com/sluicehq/sluice/policy/internal/patterns"
)

// Plan is numbers for the limits of rules, with a name, such as what customers of a price have. A request names its
// plan (see Options.PlanFrom), or an override does. An override of the key comes first. The limits keep their state, so
// used units stay used when a client gets another plan.
type Plan struct {
	// Name is unique in its policy: letters, digits, dots, dashes and underscores.
	Name string
	// Limits has, by the name of a rule, one limit for each limit of the rule, as in Override. A rule that is not there
	// keeps its own numbers.
	Limits map[string][]*sluice.Limit
}

// planSource is where requests name their plan.
type planSource struct {
	part    Part
	numbers map[string]int // of all plans, by name
}

// The numbers of requests without a plan of the policy. Plans count from 1.
const (
	planUnread  = 0
	noPlan      = -1
	unknownPlan = -2
)

// compilePlans checks the names of plans and rules, and where requests name their plan.
func (c *compiler) compilePlans(p *Policy) {
	p.plans = make(map[string]int, len(c.options.Plans))
	c.plans = p.plans
	for i := range c.options.Plans {
		plan, at := &c.options.Plans[i], fmt.Sprintf("Plans[%d]", i)
		if !patterns.IsName(plan.Name) {
			c.report(at+".Name", plan.Name, nameFault(plan.Name))
		} else if c.plans[plan.Name] > 0 {
			c.report(at+".Name", plan.Name, fault{"is the name of another plan too", "give each plan its own"})
		}
		c.plans[plan.Name] = i + 1
		for _, name := range slices.Sorted(maps.Keys(plan.Limits)) {
			if !slices.ContainsFunc(c.options.Rules, func(r Rule) bool { return r.Name == name }) {
				c.report(fmt.Sprintf("%s.Limits[%s]", at, name), name, fault{"is not a rule of the policy", "give the name of one"})
			}
		}
	}
	for i, part := range c.options.PlanFrom {
		from := &c.planFrom
		if part.Source == source.Descriptor {
			from = &c.planEntry
		}
		f, sources := checkPart(&part, &matcher{descriptor: true}), []Source{FromHeader, FromClaim, source.Attribute, source.Descriptor, source.Function}
		switch {
		case !slices.Contains(sources, part.Source):
			f = fault{"does not name plans, because clients choose it", "give a header or a claim that a gateway sets, an attribute, or for descriptors an entry"}
		case f != (fault{}):
		case part.OnMissing != MissingShared || part.OnRepeated != RepeatedDeny:
			f = fault{"has a choice for requests without it, or with several values", "leave it out: such requests have the rule's own numbers"}
		case *from != nil:
			f = fault{"is a second source, and the two may contradict each other", "give one for requests, and one for descriptors"}
		}
		if f != (fault{}) {
			c.report(fmt.Sprintf("PlanFrom[%d]", i), part.String(), f)
		}
		if part.Source == FromHeader {
			part.Name = textproto.CanonicalMIMEHeaderKey(part.Name)
		}
		*from = &planSource{part, c.plans}
	}
	p.trustsPlans = c.planFrom != nil && c.planFrom.isSent()
	for field, given := range map[string]bool{"PlanFrom": len(c.options.PlanFrom) > 0, "DenyUnknownPlans": c.options.DenyUnknownPlans} {
		if given && len(c.options.Plans) == 0 {
			c.report(field, "", fault{"is given, and there are no plans", "give plans, or leave it out"})
		}
	}
}

// addPlans makes the limits that the rule has by each plan.
func (t *overrideAdder) addPlans() {
	r := t.rule
	for i := range t.options.Plans {
		plan, set := &t.options.Plans[i], r.limits
		if limits, given := plan.Limits[r.Name]; given {
			r.byPlan = true
			if own := t.setOf(fmt.Sprintf("Plans[%d]", i), limits); own != nil {
				set = own
			}
		}
		var sets planSets
		for from := FromPlan; from <= FromCall; from++ {
			named := *set
			named.from, named.plan = from, &plan.Name
			sets[from] = &named
		}
		r.plans = append(r.plans, sets)
	}
	r.denyUnknown = t.options.DenyUnknownPlans
	if r.planFrom = t.planFrom; r.Match.Descriptor != nil {
		r.planFrom = t.planEntry
	}
}

// planSets are the limits of a plan, by what names the plan.
type planSets [FromCall + 1]*limitSet

// planSet returns the limits of a plan that an override names; nil if the policy does not have the plan.
func (t *overrideAdder) planSet(at, plan string, limits []*sluice.Limit, from NumbersFrom) *limitSet {
	n := t.plans[plan]
	switch {
	case n == 0:
		t.report(at+".Plan", plan, fault{"is not a plan of the policy", "give the name of one"})
		return nil
	case limits != nil:
		t.report(at+".Limits", "", fault{"are given, and a plan too", "give one of them"})
	}
	return t.rule.plans[n-1][from]
}

// isSent reports whether a client may have written what names the plan.
func (f *planSource) isSent() bool {
	return (f.part.Source == FromHeader || f.part.Source == FromClaim) && f.part.Value == nil
}

// of returns the number of the plan that a request names. It is unknownPlan for a name that is not the policy's, and for
// several names: a policy never chooses among them.
func (f *planSource) of(r *rule, a *Attributes) int {
	switch v := f.read(r, a); {
	case v.Repeated:
		return unknownPlan
	case !v.OK:
		return noPlan
	default:
		return numberOf(f.numbers, v.Text)
	}
}

// read reads the name of the plan. Nothing is read that a client may have written.
func (f *planSource) read(r *rule, a *Attributes) (v keys.Value) {
	if f.isSent() && !a.TrustPlan {
		return v
	}
	return r.valueOf(&f.part, a, 0)
}

// numberOf returns the number of a plan.
func numberOf(plans map[string]int, name string) int {
	if n := plans[name]; n > 0 {
		return n
	}
	return unknownPlan
}

// entry returns the number of the plan that a descriptor names.
func (f *planSource) entry(entries []descriptors.Entry) int {
	n := noPlan
	for _, e := range entries {
		if e.Key == f.part.Name && e.Value != "" {
			if n != noPlan {
				return unknownPlan
			}
			n = numberOf(f.numbers, e.Value)
		}
	}
	return n
}

// choosePlan gives a selection the limits of the request's plan.
func (s *scratch) choosePlan(q *selection) {
	r := q.rule
	if s.plan == planUnread {
		if s.plan = noPlan; r.planFrom != nil {
			s.plan = r.planFrom.of(r, &s.attributes)
		}
	}
	switch {
	case s.plan > 0:
		q.set = r.plans[s.plan-1][FromPlan]
	case s.plan == unknownPlan:
		if s.unknownPlan = true; r.denyUnknown {
			q.reason = sluice.ReasonUnknownPlan
		}
	}
}

// TrustsPlans reports whether requests name their plan in a header or a claim, which counts only with Attributes.TrustPlan.
func (p *Policy) TrustsPlans() bool { return p.trustsPlans }

// Plan returns the name of the plan whose numbers the limit has; empty for none. From says what named the plan.
func (m *LimitResult) Plan() string {
	if m.plan == nil {
		return ""
	}
	return *m.plan
}
