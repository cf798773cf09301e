package policy

import "github.com/sluicehq/sluice"

// sameLimit identifies a limit: by the name under which its state is kept, and its numbers.
type sameLimit struct{ name, numbers string }

func identityOf(l *sluice.Limit) sameLimit { return sameLimit{l.Name(), l.Algorithm().String()} }

// sameLimits returns all limits of a policy, those of overrides too, for a policy that replaces it.
func (p *Policy) sameLimits() map[sameLimit]*sluice.Limit {
	if p == nil {
		return nil
	}
	known := map[sameLimit]*sluice.Limit{}
	add := func(set *limitSet) {
		for i := range set.asks {
			known[identityOf(set.asks[i].Limit)] = set.asks[i].Limit
		}
	}
	for _, r := range p.rules {
		add(r.limits)
		for _, set := range r.overrides {
			if set != nil {
				add(set)
			}
		}
	}
	return known
}
