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
	outcomes
)

var outcomeNames = [outcomes]string{"allowed", "delayed", "denied", "shadow_denied", "uncharged", "error"}

// outcomeOf folds the limits of one rule into one outcome.
func outcomeOf(v *policy.Verdict, limits []policy.Met) outcome {
	if v.Err != nil {
		return failed
	}
	best := allowed
	for i := range limits {
		switch d := &limits[i].Decision; {
		case !d.Allowed && limits[i].Rule.Shadow:
			return shadowed
		case !d.Allowed:
			return denied
		case d.Delay > 0:
			best = delayed
		}
	}
	if !v.Allowed() && !limits[0].Rule.Shadow {
		return uncharged
	}
	return best
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
