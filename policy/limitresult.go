package policy

import (
	"context"

	"github.com/sluicehq/sluice"
)

// LimitResult is what one limit decided about a request.
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
	// Uncharged says that the limit would let the request pass, and was not charged because
	// another limit denied it.
	Uncharged bool
	// Returned says that the limit was charged, and the charge has been given back because the
	// request was refused after all.
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

// Charged reports whether the limit was charged and the charge has not been given back.
func (m *LimitResult) Charged() bool {
	return m.Decision.Allowed && m.Request.Cost > 0 && !m.Request.Peek && !m.Uncharged && !m.Returned
}

// IsLease reports whether the charge is a lease of a concurrency limit.
func (m *LimitResult) IsLease() bool { return m.Request.Member != 0 && m.Charged() }

// Charge returns the charge, for the store to settle, cancel or release. It is of use only
// if the limit is Charged.
func (m *LimitResult) Charge() sluice.Charge { return m.Request.Charge(&m.Decision) }

// GiveBack gives the charge of a request back that is not handled, and sets Returned. It does
// nothing for a limit that is not Charged. The end of ctx does not stop it. After an error the
// limit is still Charged.
func (m *LimitResult) GiveBack(ctx context.Context, store sluice.Store) error {
	if !m.Charged() {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	var err error
	if m.IsLease() || m.Decision.Delay > 0 {
		err = store.Cancel(ctx, m.Charge())
	} else {
		// The charge acted at once, and Cancel returns only what acts later.
		err = store.Settle(ctx, m.Charge(), 0)
	}
	m.Returned = err == nil
	return err
}
