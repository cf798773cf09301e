package live

import (
	"math"
	"math/rand/v2"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Sampled is how many allowed requests AllowedKeys counts one of.
const Sampled = 256

// AllowedKeys count the keys with the most allowed requests, for each rule, in a random sample of the requests. No
// client can predict which request is counted. The denials of its keys are requests of the sample. It is safe for
// concurrent use.
type AllowedKeys struct{ *DeniedKeys }

// NewAllowedKeys returns an empty AllowedKeys.
func NewAllowedKeys(fingerprint func(sluice.Key) string) *AllowedKeys {
	return &AllowedKeys{newKeys(fingerprint, mostAllowed)}
}

// Observe counts the keys of a verdict, if it allows the request and the request is in the sample.
func (a *AllowedKeys) Observe(v *policy.Verdict) {
	if rand.Uint32()%Sampled == 0 {
		a.count(v)
	}
}

func (a *AllowedKeys) count(v *policy.Verdict) {
	if v.Err != nil || v.Action == policy.Deny {
		return
	}
	for i := range v.Results {
		if m := &v.Results[i]; m.Decision.Allowed && m.Listed == policy.NotListed && m.Role != policy.RoleCandidate && !repeated(v.Results[:i], m) {
			a.add(m, Trial{})
		}
	}
}

// repeated reports whether an earlier limit of the rule has the same key.
func repeated(earlier []policy.LimitResult, m *policy.LimitResult) bool {
	n := len(earlier)
	return n > 0 && earlier[n-1].Rule == m.Rule && earlier[n-1].Request.Key == m.Request.Key
}

// Estimate returns how many requests a key had, by the number of them in the sample and its error, and by how much the
// estimate may be wrong, in 19 of 20 cases.
func Estimate(counted, wrong uint64) (requests, within uint64) {
	// The number in the sample has a binomial distribution.
	chance := 2 * math.Sqrt(float64(counted)*(1-1/float64(Sampled)))
	return counted * Sampled, wrong*Sampled + uint64(math.Ceil(chance*Sampled))
}
