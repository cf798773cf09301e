package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/policy"
)

// Terms are what an override by call gives a key, as an object of JSON: numbers for the limits of the rule, a plan, or
// one of the words.
type Terms struct {
	// Limit is for the only limit of the rule.
	Limit *Numbers `yaml:"limit" remedy:"write it as in {\"rate\": \"5000/m\"}"`
	// Limits are for all limits of the rule, in their order. {} leaves a limit as it is.
	Limits []Numbers `yaml:"limits" remedy:"write it as in [{\"rate\": \"5000/m\"}, {}]"`
	// Plan names a plan.
	Plan string `yaml:"plan"`
	// Unlimited lets the key pass without limits.
	Unlimited bool `yaml:"unlimited"`
	// Deny refuses the key.
	Deny bool `yaml:"deny"`
}

// Terms reads the terms of an override of a rule; see policy.Options.Terms. The error is a [reader.Errors]. The paths
// of its mistakes begin in the text. It is safe for concurrent use.
func (f *File) Terms(rule, text string) (policy.Terms, error) {
	var p policy.Terms
	var whole struct {
		Terms Terms `yaml:"terms"`
	}
	s := reader.New("", []byte("terms: "+text))
	if !s.Decode(&whole) || s.Failed("") {
		return p, s.Err()
	}
	t := &whole.Terms
	i := slices.IndexFunc(f.Rules, func(r Rule) bool { return r.Name == rule })
	var given []string
	for _, field := range []struct {
		name string
		is   bool
	}{{"limit", t.Limit != nil}, {"limits", t.Limits != nil}, {"plan", t.Plan != ""}, {"unlimited", t.Unlimited}, {"deny", t.Deny}} {
		if field.is {
			given = append(given, field.name)
		}
	}
	switch {
	case i < 0:
		s.Report("terms", fmt.Sprintf("there is no rule %s", reader.Quote(rule)), "")
	case len(given) == 0:
		s.Report("terms.limit", "is missing, and limits, plan, unlimited and deny are too", "give one of them")
	case len(given) > 1:
		s.Report("terms."+given[1], "is given, and "+given[0]+" too", "give one of them")
	case t.Plan != "":
		p.Plan = t.Plan
		if _, known := f.Plans[t.Plan]; !known {
			s.Report("terms.plan", reader.Quote(t.Plan)+" is not a plan", cmp.Or(reader.DidYouMean(t.Plan, slices.Sorted(maps.Keys(f.Plans))), "give the name of one under plans"))
		}
	case t.Unlimited:
		p.List = policy.ListAllow
	case t.Deny:
		p.List = policy.ListDeny
	default:
		r := &f.Rules[i]
		o := Override{Key: []string{""}, Limit: t.Limit, Limits: t.Limits}
		made, ok := o.build(s, "terms", r.LimitsGiven(), &r.Hybrid)
		if p.Limits = made.Limits; ok && len(p.Limits) == 0 {
			s.Report("terms.limits", "are none: the rule has no limits", "leave the override out")
		}
	}
	for _, w := range s.Warnings {
		p.Warning = strings.TrimPrefix(p.Warning+"; "+w.Problem+"; "+w.Suggestion, "; ")
	}
	return p, s.Err()
}
