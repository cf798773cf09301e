package policyfile

import (
	"fmt"

	"github.com/sluicehq/sluice"
)

// terms returns the terms of a ban as the policy has them.
func (b *Ban) terms(s *source, path string, where *places) *sluice.Ban {
	where.set("Ban.Escalate", path+".for")
	for i := range b.For[min(1, len(b.For)):] {
		where.set(fmt.Sprintf("Ban.Escalate[%d]", i), fmt.Sprintf("%s.for[%d]", path, i+1))
	}
	t := &sluice.Ban{After: b.After, Within: b.Within, Forget: b.Forget, Prolong: b.Prolong}
	if len(b.For) > 0 {
		t.For, t.Escalate = b.For[0], b.For[1:]
	}
	given := t.After != 0 || t.Within != 0 || len(b.For) > 0 || t.Forget != 0 || t.Prolong
	switch {
	case given && t.After == 0 && t.For == 0 && t.Within == 0 && t.Forget == 0 && !t.Prolong:
		// To the policy these terms would be a ban by hand.
		s.follow(path+".after", "is 0", "give 1 or more denials")
	case !given && !b.ByHand:
		s.follow(path, "says nothing", "write {after: 10, within: 1m, for: 1h}, or {by_hand: true} for bans by hand alone")
	default:
		return t
	}
	return &sluice.Ban{}
}
