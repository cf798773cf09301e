package describe

import (
	"fmt"
	"strings"

	"github.com/sluicehq/sluice/policy"
)

// mostModes bounds the hybrid limits, and the exact rules, that are listed.
const mostModes = 20

// Modes describes how the rules of a policy over a store in Redis are decided: for each hybrid limit the most and
// the least that it admits, and then the names of the exact rules. It is empty if no rule is hybrid.
func Modes(rules []*policy.Rule) string {
	var b strings.Builder
	var exact []string
	hybrid := 0
	for _, r := range rules {
		before := hybrid
		for _, l := range r.Limits {
			bound := Hybrid(l)
			if bound == "" {
				continue
			}
			if hybrid++; hybrid <= mostModes {
				fmt.Fprintf(&b, "hybrid %s: %s\n", l.Name(), bound)
			}
		}
		if hybrid == before && len(r.Limits) > 0 {
			exact = append(exact, r.Name)
		}
	}
	switch {
	case hybrid == 0:
		return ""
	case hybrid > mostModes:
		fmt.Fprintf(&b, "       and %s\n", count(hybrid-mostModes, "more limit"))
	}
	if n := len(exact); n > mostModes {
		exact = append(exact[:mostModes], fmt.Sprintf("and %d more", n-mostModes))
	}
	if len(exact) > 0 {
		fmt.Fprintf(&b, "exact  %s\n", strings.Join(exact, ", "))
	}
	return b.String()
}
