package policy

import "github.com/sluicehq/sluice"

// LimitResult is one limit that a request met.
type LimitResult struct {
	// Rule is the rule whose limit it is.
	Rule *Rule
	// Request is the question to the store, and Decision is its answer.
	Request  sluice.Request
	Decision sluice.Decision
	// Role says what the decision is for.
	Role Role
	// Listed says that the key or the client is on a list of the rule: then the store was
	// not asked, and Request tells the rule's first limit alone. To a rule that is Always limited
	// all are as if on its list to deny, but with ReasonLimited; a limit stands for it that is never asked.
	Listed List
	// Override says that the numbers are those of one of the rule's Overrides.
	Override bool
	// Returned says that what the decision took was given back, for a rule that enforces its
	// limits refused the request.
	Returned bool
}

// Role says what a decision about a limit is for.
type Role uint8

// The roles.
const (
	// RoleEnforced: the request passes only if the limit lets it.
	RoleEnforced Role = iota
	// RoleAdvisory: the request is degraded or marked if the limit does not let it pass.
	RoleAdvisory
	// RoleShadow: the rule is in shadow, and nothing follows from the decision.
	RoleShadow
	// RoleCandidate: the limit is tried out beside those of its rule, and nothing follows.
	RoleCandidate
)

var roleNames = [...]string{RoleEnforced: "enforced", RoleAdvisory: "advisory", RoleShadow: "shadow", RoleCandidate: "candidate"}

// String returns the role in a word.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return "unknown"
}

// List is one of a rule's lists.
type List uint8

// The lists.
const (
	// NotListed: on no list.
	NotListed List = iota
	// ListAllow: on AllowKeys or AllowIPs; the rule lets the request pass.
	ListAllow
	// ListDeny: on DenyKeys or DenyIPs; the rule refuses it, with ReasonListed, or does to
	// it what else its action is.
	ListDeny
)

var listNames = [...]string{NotListed: "", ListAllow: "allow", ListDeny: "deny"}

// String returns the list in a word, empty for none.
func (l List) String() string {
	if int(l) < len(listNames) {
		return listNames[l]
	}
	return "unknown"
}

// action returns what the decision asks for.
func (m *LimitResult) action() Action {
	switch {
	case m.Decision.Allowed:
		return Allow
	case m.Role == RoleEnforced:
		return Deny
	case m.Role == RoleAdvisory:
		return m.Rule.WhenLimited.Action
	default:
		return Allow
	}
}

// charged reports whether the limit was charged, in a batch with this outcome, and
// what was taken has not been given back.
func (m *LimitResult) charged(batch Action) bool {
	return m.Decision.Allowed && m.Request.Cost > 0 && !m.Request.Peek && !m.Returned && (batch != Deny || m.Request.Shadow)
}
