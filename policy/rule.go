package policy

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy/internal/keys"
	"github.com/sluicehq/sluice/policy/internal/networks"
)

// Rule is a match, a key, limits, and what to do when limited. Rules are independent: all rules that match a request
// apply, and the request passes only if all of them let it pass. A rule of a policy does not change, and is safe for
// concurrent use.
type Rule struct {
	// Name is unique in its policy: letters, digits, dots, dashes and underscores.
	// The state of the rule's limits is kept under it.
	Name string
	// Match selects the requests of the rule; the zero Match selects all requests.
	Match Match
	// Key is what the limits count by: one part or more. For one budget shared by everybody, give
	// Global(). A rule that is Always limited may have no key.
	Key []Part
	// Limits are one or more; all must hold. Their state belongs to the rule: the first limit is kept
	// as "rule", the n-th as "rule/n". A limit with a name is kept as "rule/name"; the name must be
	// unique in the rule. A rule with a Bandwidth may have no limits, and a rule that is Always limited
	// has none. Limits of a rule with a Ban cannot be hybrid.
	Limits []*sluice.Limit
	// LimitsFor returns other limits for a request than Limits, such as of a customer's plan, and nil for Limits.
	// Without Limits, it returns limits for each request; otherwise the request is refused. It must return limits that
	// the program keeps, not new ones: see sluice.Limit. If they have the names of Limits, used units stay used when
	// the plan changes. It must be safe for concurrent use. Only a rule that Single compiles may have it; rules of a
	// policy have Overrides.
	LimitsFor func(a *Attributes) []*sluice.Limit
	// Always limits each request that the rule matches, without limits or a key. Use it to drop marked
	// traffic or degrade all traffic under pressure, or to mark a kind of traffic.
	Always bool
	// Unlimited lets each descriptor pass that the rule matches, so that no other rule of the domain applies to
	// it. The rule has no limits.
	Unlimited bool
	// Exempt is like Unlimited, except that the descriptor counts as matched by no rule.
	Exempt bool
	// Candidate are limits that are tried out beside the limits in force: decided, counted and
	// explained, and never enforced. They are kept as "rule/candidate/n" or "rule/candidate/name".
	Candidate []*sluice.Limit
	// Overrides are other numbers for some keys. A lookup takes the same time whether there is one
	// override or a hundred thousand.
	Overrides []Override
	// MoreOverrides are overrides after these, such as the rows of a table that is read row by row. New calls it once, and
	// keeps no Override. Overrides with one slice of limits share their numbers without a comparison. Default: none.
	MoreOverrides iter.Seq[Override]
	// AllowKeys are keys that the rule lets pass without its limits, each given as in
	// RuleRequest.Key; DenyKeys are keys that it refuses. Denying wins.
	AllowKeys, DenyKeys [][]string
	// AllowIPs and DenyIPs do the same for networks of clients. They may be many: a lookup takes time
	// logarithmic in their number.
	AllowIPs, DenyIPs []netip.Prefix
	// Cost is how many units a request takes. Default: the cost of the request, or one.
	Cost Cost
	// Overdraw lets a request pass while a unit is left, and takes its whole cost: what is missing becomes debt. It is for
	// costs that nobody can bound in advance, and needs limits that can owe units: see sluice.Request.Overdraw.
	Overdraw bool
	// CountStatus counts only requests whose response has one of these statuses, such as 401 for failed
	// logins. The units are taken before the request is handled, so that too many requests at once do
	// not pass. They are given back afterwards if the status is another one. Default: any response
	// counts. To count denied requests too, give limits that count them, such as a SlidingLog with
	// CountDenied.
	CountStatus []StatusRange
	// Floor is how many units must remain after the take. It reserves them for more important traffic,
	// which needs a rule without this floor.
	Floor int64
	// Reserved keeps the last units of each limit for some classes of traffic.
	Reserved []Reserve
	// MaxWait is the longest delay that is acceptable, sluice.NoWait for none. Zero means the longest
	// delay that each limit offers by itself.
	MaxWait time.Duration
	// MaxWaiting is the size of the rule's waiting queue in one process, up to a million requests. More
	// are refused at once. Default: 1,024, or MaxWaitingPerKey if it is larger; in a policy that Single
	// made, the bound of the gate.
	MaxWaiting int
	// MaxWaitingPerKey is how many requests in the queue may have the same key. Default: a quarter of
	// MaxWaiting, and at least one.
	MaxWaitingPerKey int
	// Bandwidth paces the bytes of each key's requests; nil for no pacing.
	Bandwidth *Bandwidth
	// Ban refuses a key outright for a time after too many denials; nil for no ban.
	Ban *sluice.Ban
	// Ahead lets keys have allowances, which Options.Overrides has. Nil for none.
	Ahead *Ahead
	// BanShared lets denials ban a key that all clients share, such as Global. Denials of requests that lack
	// a part of the key never lead to a ban.
	BanShared bool
	// Shadow decides, counts and explains, and enforces nothing.
	Shadow bool
	// WhenLimited says what happens to a request that the limits do not let pass.
	WhenLimited LimitedAction
	// OnStoreError is what happens to a request when the store cannot decide. In a rule that degrades
	// or marks, FallbackDeny degrades or marks the request. Default: Options.OnStoreError.
	OnStoreError sluice.Fallback

	overridden int // see OverrideCount
}

// Override gives one key of a rule other numbers for the rule's limits. The limits keep their state, so
// the key's used units stay used when its override is added, changed or removed.
type Override struct {
	// Key is the key, given as in RuleRequest.Key.
	Key []string
	// Limits has one limit for each limit of the rule, in the same order. Equal limits may share one
	// value. Hybrid terms are not taken from the rule's limits: give them to these limits too.
	Limits []*sluice.Limit
	// Plan names a plan of the policy, in place of limits. Default: none.
	Plan string
}

// Bandwidth paces the bytes of requests: all requests of one key share the rates. A gate.Flows carries
// it out.
type Bandwidth struct {
	// Down is the rate of what clients receive, in bytes; zero for no pacing.
	Down sluice.Rate
	// Up is the rate of what clients send, in bytes; zero for no pacing.
	Up sluice.Rate
}

// Paced is a rule with a Bandwidth that applies to a request, and the key whose bytes are paced.
type Paced struct {
	// Rule is the rule, and Key is the key whose bytes are paced.
	Rule *Rule
	Key  sluice.Key
}

func (b *Bandwidth) check(report func(field, value string, f fault)) {
	if b.Down.IsZero() && b.Up.IsZero() {
		report("Bandwidth", "", fault{"has no rate", "give Down or Up, in bytes, such as sluice.PerSecond(1_000_000)"})
	}
	for field, rate := range map[string]sluice.Rate{"Bandwidth.Down": b.Down, "Bandwidth.Up": b.Up} {
		if rate.IsZero() {
			continue
		}
		_, err := sluice.NewLimit("", sluice.FixedWindow{Rate: rate})
		var bad *sluice.LimitError
		if errors.As(err, &bad) {
			report(field, "", fault{bad.Problem, bad.Remedy})
		}
	}
}

// The sizes of waiting queues: the default, and the largest.
const (
	defaultQueue = 1024
	maxQueue     = 1_000_000
)

// checkQueue checks how many may wait, and fills in the defaults.
func (c *compiler) checkQueue(r *Rule) {
	if r.MaxWaiting < 0 || r.MaxWaiting > maxQueue {
		remedy := fmt.Sprintf("give 1 to %d, or 0 for %d", maxQueue, defaultQueue)
		if r.MaxWaiting < 0 {
			remedy += "; to let nobody wait, set MaxWait to sluice.NoWait"
		}
		c.report("MaxWaiting", "", is(r.MaxWaiting, remedy))
		return
	}
	if c.single && r.MaxWaiting == 0 {
		return // the gate's own bound holds
	}
	if r.MaxWaiting == 0 {
		r.MaxWaiting = max(defaultQueue, r.MaxWaitingPerKey)
	}
	if r.MaxWaitingPerKey < 0 || r.MaxWaitingPerKey > r.MaxWaiting {
		c.report("MaxWaitingPerKey", "", is(r.MaxWaitingPerKey, fmt.Sprintf("give 1 to %d, the number that may wait in all, or 0 for a quarter of it", r.MaxWaiting)))
	}
	if r.MaxWaitingPerKey == 0 {
		r.MaxWaitingPerKey = max(1, r.MaxWaiting/4)
	}
}

// rule is a Rule, checked and ready to decide.
type rule struct {
	Rule  // as given, except that limits have the policy's names, and defaults are filled in
	index int
	match *matcher
	parts []Part
	role  Role // of its limits
	// limits are for keys without an override; overrides are for the other keys.
	limits    *limitSet
	overrides keys.Table[*limitSet]
	lists     keys.Table[List]
	allowIPs  *networks.Set
	denyIPs   *networks.Set
	hasLists  bool
	plans     []planSets // by the number of the plan, from 0
	byPlan    bool       // some plan has numbers for the rule
	// denyUnknown limits requests whose plan is unknown.
	denyUnknown bool
	planFrom    *planSource    // nil if requests name no plan
	byCall      *ruleOverrides // nil without a table
	lazily      *compiler      // reads the terms of the table
	ahead       *ruleOverrides // the allowances; nil if the rule has none
	entries     []int          // the entry of the descriptor for each part; nil for a rule that matches requests
}

// StatusRange is a range of statuses, both ends included.
type StatusRange struct {
	// From and To are the first and the last status, both included.
	From, To int
}

// Status is the range of one status.
func Status(code int) StatusRange { return StatusRange{code, code} }

// counts reports whether a response with this status counts.
func (r *Rule) counts(status int) bool {
	return len(r.CountStatus) == 0 || slices.ContainsFunc(r.CountStatus, func(s StatusRange) bool { return s.From <= status && status <= s.To })
}

// checkStatuses checks which statuses count.
func (c *compiler) checkStatuses(r *Rule) {
	for i, s := range r.CountStatus {
		if s.From < 100 || s.To > 599 || s.From > s.To {
			c.report(fmt.Sprintf("CountStatus[%d]", i), "", fault{fmt.Sprintf("is %d to %d", s.From, s.To), "give a range within 100 to 599"})
		}
	}
}

// limitSet is the limits of a rule, or the limits of an override, as requests to the store.
type limitSet struct {
	// requests are the requests, one for each limit, without key and cost.
	requests []sluice.Request
	// kinds has more about each request.
	kinds []limitKind
	// floors has the floors of the requests, by class: the first row is for requests without a class.
	// Nil if all are the rule's own floor.
	floors [][]int64
	// from says where the numbers come from, and plan is the name of their plan, nil for none.
	from NumbersFrom
	plan *string
}

// limitKind is what a request to the store does not contain.
type limitKind struct {
	lease bool // it needs a member
	role  Role
}

// NumbersFrom says where the numbers of a limit come from. If several apply to a key, the last of these counts.
type NumbersFrom uint8

// Where numbers come from.
const (
	// FromRule: the rule itself.
	FromRule NumbersFrom = iota
	// FromPlan: the plan that the request names, also if it has no numbers for the rule.
	FromPlan
	// FromFile: the Overrides of the rule, or its LimitsFor.
	FromFile
	// FromCall: the OverrideTable of the policy.
	FromCall
)

var numbersNames = [...]string{FromRule: "rule", FromPlan: "plan", FromFile: "file", FromCall: "call"}

// String returns it in a word.
func (f NumbersFrom) String() string {
	if int(f) < len(numbersNames) {
		return numbersNames[f]
	}
	return "unknown"
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
	// RoleCandidate: the limit is tried out beside the limits of its rule, and nothing follows.
	RoleCandidate
	// RoleQuota: the descriptor is a quota. The call passes if another quota of the call allows it.
	RoleQuota
	// RoleRefund: the descriptor gives units back, and nothing follows from the decision.
	RoleRefund
)

var roleNames = [...]string{RoleEnforced: "enforced", RoleAdvisory: "advisory", RoleShadow: "shadow", RoleCandidate: "candidate", RoleQuota: "quota", RoleRefund: "refund"}

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
	// ListDeny: on DenyKeys or DenyIPs; the rule applies its action to the request, with ReasonListed.
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

// roleOf returns the role of a rule's limits.
func roleOf(r *Rule) Role {
	switch {
	case r.Shadow:
		return RoleShadow
	case r.WhenLimited.Action.advisory():
		return RoleAdvisory
	case r.Match.Descriptor != nil && r.Match.Descriptor.Quota:
		return RoleQuota
	}
	return RoleEnforced
}

// debits reports whether a rule takes the cost of its descriptors whatever is left.
func (r *Rule) debits() bool { return r.Match.Descriptor != nil && r.Match.Descriptor.Debit }
