package policy

import "github.com/sluicehq/sluice"

// sameLimit is what two limits have in common that are one: the name under which the
// state is kept, and the numbers.
type sameLimit struct{ name, numbers string }

// Continue takes over from an earlier policy the limits that are still the same. What keys
// have used stays used without it too, for state is kept under the names of limits; but a
// store knows a limit by its pointer, and remembers as many as keys were last charged by. Call it
// before p decides, each time that p is to take the place of another policy.
func (p *Policy) Continue(earlier *Policy) {
	known := map[sameLimit]*sluice.Limit{}
	earlier.eachLimit(func(l **sluice.Limit) { known[sameLimit{(*l).Name(), (*l).Algorithm().String()}] = *l })
	p.eachLimit(func(l **sluice.Limit) {
		if same := known[sameLimit{(*l).Name(), (*l).Algorithm().String()}]; same != nil {
			*l = same
		}
	})
}

// eachLimit visits all places where the policy has a limit, those of overrides too.
func (p *Policy) eachLimit(visit func(**sluice.Limit)) {
	for _, r := range p.rules {
		for i := range r.Limits {
			visit(&r.Limits[i])
		}
		for i := range r.Candidate {
			visit(&r.Candidate[i])
		}
		seen := map[*limitSet]bool{}
		set := func(s *limitSet) {
			if s == nil || seen[s] {
				return
			}
			seen[s] = true
			for i := range s.asks {
				visit(&s.asks[i].Limit)
			}
		}
		set(r.limits)
		for _, s := range r.overrides {
			set(s)
		}
	}
}
