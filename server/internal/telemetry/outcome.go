package telemetry

import "github.com/sluicehq/sluice/policy"

// outcome is what a rule had to say about a request.
type outcome uint8

const (
	allowed   outcome = iota // it let the request pass at once
	delayed                  // it let it pass after a wait
	denied                   // it refused it
	shadowed                 // it would have refused it, but is in shadow
	uncharged                // it would have let it pass, and another rule refused
	failed                   // the store could not decide
	degraded                 // it gives the request less
	marked                   // it lets it pass with a mark
	outcomes
)

var outcomeNames = [outcomes]string{"allowed", "delayed", "denied", "shadow_denied", "uncharged", "error", "degraded", "marked"}

// outcomeOf folds the limits of one rule into one outcome. Its candidates have no say in it.
func outcomeOf(v *policy.Verdict, limits []policy.LimitResult) outcome {
	if v.Err != nil {
		return failed
	}
	best := allowed
	for i := range limits {
		switch d, role := &limits[i].Decision, limits[i].Role; {
		case role == policy.RoleCandidate:
		case !d.Allowed && role == policy.RoleShadow:
			return shadowed
		case !d.Allowed && role == policy.RoleEnforced:
			return denied
		case !d.Allowed && !v.Allowed():
			return uncharged
		case !d.Allowed && limits[i].Rule.WhenLimited.Action == policy.Mark:
			return marked
		case !d.Allowed:
			return degraded
		case d.Delay > 0:
			best = delayed
		}
	}
	if !v.Allowed() && !limits[0].Rule.Shadow {
		return uncharged
	}
	return best
}

// candidatesOf reports whether candidates of one rule were asked, and 1 if one of them would
// have refused the request, 0 if none.
func candidatesOf(v *policy.Verdict, limits []policy.LimitResult) (asked bool, answer int) {
	for i := range limits {
		if limits[i].Role == policy.RoleCandidate && v.Err == nil {
			asked = true
			if !limits[i].Decision.Allowed {
				answer = 1
			}
		}
	}
	return asked, answer
}

// outcomeOfNone is the outcome of a request that met no limit.
func outcomeOfNone(v *policy.Verdict) outcome {
	switch {
	case v.Err != nil:
		return failed
	case v.Allowed():
		return allowed
	default:
		return denied
	}
}
