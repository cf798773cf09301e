package live

import (
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Trial counts what the candidate of a rule decided about the requests of a denied key.
type Trial struct {
	// Compared counts the denials by the rule's own numbers that the candidate decided about too. WouldDeny counts the
	// requests that the candidate would have denied, also if the rule allowed them. If there are none, the candidate
	// frees the key.
	Compared, WouldDeny uint64
	// Candidate are the limits that were compared. Numbers of other candidates are forgotten.
	Candidate []*sluice.Limit
}

// add adds what was counted later.
func (t *Trial) add(later Trial) {
	switch {
	case later.Compared+later.WouldDeny == 0:
	case slices.Equal(t.Candidate, later.Candidate): // a reload keeps limits whose numbers stay
		t.Compared, t.WouldDeny = t.Compared+later.Compared, t.WouldDeny+later.WouldDeny
	default:
		*t = later
	}
}

// trialOf returns what the denial of a number adds to its key. It is zero if the rule has no candidate, or if a plan,
// an override, a ban or a fallback decided: a change of the rule's numbers changes nothing then. If several limits deny
// a request, the first one counts.
func trialOf(results []policy.LimitResult, at int) (t Trial) {
	first := &results[at]
	if len(first.Rule.Candidate) == 0 {
		return t
	}
	same := func(m *policy.LimitResult) bool { return m.Rule == first.Rule && m.Request.Key == first.Request.Key }
	from := at
	for from > 0 && same(&results[from-1]) {
		from--
	}
	denied, tried, refused := -1, false, -1
	for i := from; i < len(results) && same(&results[i]); i++ {
		switch m := &results[i]; {
		case m.From != policy.FromRule || m.Decision.Degraded || m.Decision.Reason == sluice.ReasonBanned:
			return t
		case m.Role == policy.RoleCandidate:
			if tried = true; !m.Decision.Allowed && refused < 0 {
				refused = i
			}
		case !m.Decision.Allowed && denied < 0:
			denied = i
		}
	}
	t.Candidate = first.Rule.Candidate
	if tried && denied == at {
		t.Compared = 1
	}
	if refused >= 0 && (denied == at || denied < 0 && refused == at) {
		t.WouldDeny = 1
	}
	return t
}
