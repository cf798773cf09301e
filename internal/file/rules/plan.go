package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
)

// plans fills in the plans, and what names them.
func (f *File) plans(s *reader.Source, o *policy.Options, where []origins) {
	for _, name := range slices.Sorted(maps.Keys(f.Plans)) {
		field, at := fmt.Sprintf("Plans[%d]", len(o.Plans)), "plans."+name
		where[0].set(field+".Name", at)
		plan := policy.Plan{Name: name, Limits: map[string][]*sluice.Limit{}}
		for _, of := range slices.Sorted(maps.Keys(f.Plans[name])) {
			i := slices.IndexFunc(f.Rules, func(r Rule) bool { return r.Name == of })
			if i < 0 {
				where[0].set(fmt.Sprintf("%s.Limits[%s]", field, of), at+"."+of)
				plan.Limits[of] = nil // the policy reports it
				continue
			}
			if where[i+1].bad {
				continue
			}
			r := &f.Rules[i]
			where[i+1].set(field, at+"."+of)
			place := func(i int) string { return fmt.Sprintf("%s.%s[%d]", at, of, i) }
			made, ok := limitsOf(s, at+"."+of, place, f.Plans[name][of], written(s, place), r.LimitsGiven(), &r.Hybrid)
			if ok {
				plan.Limits[of] = made
			}
		}
		o.Plans = append(o.Plans, plan)
	}
	for i, text := range f.PlanFrom {
		part, err := policy.ParsePart(text)
		if at := fmt.Sprintf("plan_from[%d]", i); err != nil {
			s.Follow(at, reader.Quote(text)+" names no plan", "give header:NAME, claim:NAME or attribute:NAME, or descriptor:KEY for descriptors")
		} else {
			where[0].set(fmt.Sprintf("PlanFrom[%d]", len(o.PlanFrom)), at)
			o.PlanFrom = append(o.PlanFrom, part)
		}
	}
	where[0].set("DenyUnknownPlans", "unknown_plan")
	o.DenyUnknownPlans = f.UnknownPlan == "deny"
}

// queues reports whether a plan has numbers of a queue for a rule.
func (f *File) queues(r *Rule) bool {
	for _, plan := range f.Plans {
		if slices.ContainsFunc(plan[r.Name], func(n Numbers) bool { return n.Queue > 0 }) {
			return true
		}
	}
	return false
}
