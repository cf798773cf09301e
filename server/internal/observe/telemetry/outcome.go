package telemetry

import "github.com/sluicehq/sluice/policy"

// outcome is what a rule did with a request.
type outcome uint8

const (
	allowed   outcome = iota // passed at once
	delayed                  // passed after a wait
	denied                   // refused
	shadowed                 // a rule in shadow would have refused it
	uncharged                // the rule would have let it pass, but another rule refused it
	failed                   // the store could not decide
	degraded                 // passed, degraded
	marked                   // passed with a mark
	outcomes
)

var outcomeNames = [outcomes]string{"allowed", "delayed", "denied", "shadow_denied", "uncharged", "error", "degraded", "marked"}

// outcomeOf folds the limits of one rule into one outcome. Candidates do not count.
func outcomeOf(v *policy.Verdict, limits []policy.LimitResult) outcome {
	if v.Err != nil {
		return failed
	}
	best := allowed
	for i := range limits {
		switch d, role := &limits[i].Decision, limits[i].Role; {
		case role == policy.RoleCandidate || role == policy.RoleRefund:
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

// candidatesOf reports whether candidates of one rule decided, and returns 1 if one of them denied the request,
// otherwise 0.
func candidatesOf(v *policy.Verdict, limits []policy.LimitResult) (decided bool, answer int) {
	for i := range limits {
		if limits[i].Role == policy.RoleCandidate && v.Err == nil {
			decided = true
			if !limits[i].Decision.Allowed {
				answer = 1
			}
		}
	}
	return decided, answer
}

// outcomeOfNone is the outcome of a request to which no limit applied.
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
