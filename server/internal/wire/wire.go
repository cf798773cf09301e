// Package wire has the JSON of answers that the decision API writes and the commands read: about keys, bans and hybrid
// limits, and problems; and overrides, as the store keeps them for it.
package wire

import (
	"encoding/json"
	"time"
)

// Waits are the times of a decision, rounded up.
type Waits struct {
	// DelayMS is how long an allowed request waits before it acts.
	DelayMS int64 `json:"delay_ms"`
	// RetryAfterMS is when a denied request may come back; left out if no wait would help.
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty"`
	// RetryAfterSeconds is the same in whole seconds, as in a Retry-After header.
	RetryAfterSeconds *int64 `json:"retry_after_seconds,omitempty"`
	// ResetAfterMS is when the whole budget is available again; left out if it is not known.
	ResetAfterMS *int64 `json:"reset_after_ms,omitempty"`
}

// Bans is a page of the list of bans.
type Bans struct {
	Bans []Ban  `json:"bans"`
	Next string `json:"next,omitempty"`
}

// Ban is a ban in force.
type Ban struct {
	Rule   string   `json:"rule"`
	Limit  string   `json:"limit"`
	Key    []string `json:"key,omitzero"`
	Digest string   `json:"digest,omitempty"`
	LeftMS int64    `json:"left_ms"`
	InRow  int      `json:"in_row,omitempty"`
	ByHand bool     `json:"by_hand,omitempty"`
}

// Keys is the list of keys that were denied lately.
type Keys struct {
	Keys []DeniedKey `json:"keys"`
	// More means that there are more keys than the caller wanted.
	More bool `json:"more,omitempty"`
	// Degraded means that the store did not answer, so that fallbacks decided what is left of some keys.
	Degraded bool `json:"degraded,omitempty"`
	// Servers are the other servers of the store whose keys are in the list, and Missing names the servers that give no
	// answer now: the list may have keys of an earlier answer.
	Servers int      `json:"servers,omitempty"`
	Missing []string `json:"missing,omitempty"`
}

// DeniedKey is a key of a rule that was denied: its last denial, and what is left for it now.
type DeniedKey struct {
	Rule string `json:"rule"`
	// Key holds the values of the rule's key; left out if the key was too long to be kept, or the rule is gone or its
	// key has changed.
	Key []string `json:"key,omitzero"`
	// Digest is the fingerprint of the key, as in the log.
	Digest string `json:"digest"`
	// Limit, Role, Reason and Plan describe the last denial. Role is candidate if only the candidate of the rule would
	// have denied these requests. Plan is the plan that the request named, if its numbers counted.
	Limit  string `json:"limit"`
	Role   string `json:"role"`
	Reason string `json:"reason"`
	Plan   string `json:"plan,omitempty"`
	// Denials counts the denials by these servers in this half hour and the one before. The number may be too high by
	// Error.
	Denials uint64 `json:"denials"`
	Error   uint64 `json:"error,omitempty"`
	// Candidate compares the rule's candidate with the rule; left out without one.
	Candidate *Trial `json:"candidate,omitempty"`
	// FirstMS and LastMS are how long ago the first and the last of these denials were.
	FirstMS int64 `json:"first_ms"`
	LastMS  int64 `json:"last_ms"`
	// Now is the tightest limit of the key now; left out if the rule or the key is gone.
	Now *LimitUsage `json:"now,omitempty"`
}

// Trial counts what the candidate of a rule decided about the requests of a denied key.
type Trial struct {
	// Compared counts the denials that the candidate decided about too. Denials by a ban, and by the numbers of a plan
	// or an override, are left out.
	Compared uint64 `json:"compared"`
	// WouldDeny counts the requests that the candidate would have denied: these, or requests that the rule allowed.
	// Zero means that the candidate would free the key.
	WouldDeny uint64 `json:"would_deny"`
}

// Usage is what a key of a rule has used now.
type Usage struct {
	Rule string `json:"rule"`
	// Allowed is whether the next request of the rule's cost would pass, and Reason why it would not.
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"`
	// UnknownPlan says that the named plan is not a plan of the policy, so the numbers are the rule's.
	UnknownPlan bool `json:"unknown_plan,omitempty"`
	// Limits are the limits that apply to the key; none if the rule or an override exempts the key, or denies it.
	Limits []LimitUsage `json:"limits"`
	// Ahead are the units ahead of the key, which count when a limit denies; nil for none.
	Ahead *AheadUsage `json:"ahead,omitempty"`
}

// AheadUsage is what a key has of its units ahead.
type AheadUsage struct {
	Units     int64     `json:"units"`
	Used      int64     `json:"used"`
	Remaining int64     `json:"remaining"`
	Until     time.Time `json:"until"`
}

// LimitUsage is what a key has used of a limit.
type LimitUsage struct {
	Limit string `json:"limit"`
	// Role is enforced, advisory or shadow, and Listed the list of the rule that has the key.
	Role   string `json:"role"`
	Listed string `json:"listed,omitempty"`
	// From is where the numbers come from, if they are not the rule's.
	From string `json:"from,omitempty"`
	// Plan is the plan whose numbers these are.
	Plan     string `json:"plan,omitempty"`
	Allowed  bool   `json:"allowed"`
	Reason   string `json:"reason,omitempty"`
	Capacity int64  `json:"capacity"`
	// Used and Remaining are left out if the store did not decide, and Used also if the key is banned.
	Used      *int64 `json:"used,omitempty"`
	Remaining *int64 `json:"remaining,omitempty"`
	// Ahead says that the limit denies the next request, and units ahead would pay for it.
	Ahead bool `json:"ahead,omitempty"`
	// Degraded says that a fallback decided, because the store did not answer.
	Degraded bool `json:"degraded,omitempty"`
	Waits
}

// Hybrid has the figures of hybrid limits in one server.
type Hybrid struct {
	Limits []HybridLimit `json:"limits"`
	// Keys are the keys with the most granted units first.
	Keys []HybridKey `json:"keys"`
	// More means that there are more keys than the caller wanted.
	More bool `json:"more,omitempty"`
}

// HybridLimit has the figures of one hybrid limit, as hybrid.LimitStats describes them.
type HybridLimit struct {
	Rule  string `json:"rule"`
	Limit string `json:"limit"`
	// Bound describes the most and the least that the limit admits.
	Bound      string `json:"bound"`
	Keys       int    `json:"keys"`
	Over       int64  `json:"over"`
	Under      int64  `json:"under"`
	Escrow     int64  `json:"escrow"`
	Unspent    int64  `json:"unspent"`
	Unreported int64  `json:"unreported"`
	Overdraft  int64  `json:"overdraft"`
	Local      uint64 `json:"local"`
	Cached     uint64 `json:"cached"`
	Exact      uint64 `json:"exact"`
	Excess     int64  `json:"excess"`
	// LastSyncMS is how long ago the store last answered; left out if it never did.
	LastSyncMS *int64 `json:"last_sync_ms,omitempty"`
}

// HybridKey is a key with units that are granted, as hybrid.KeyStats describes it.
type HybridKey struct {
	Rule  string `json:"rule"`
	Limit string `json:"limit"`
	// Key holds the values of the rule's key; left out if the rule is gone or its key has changed.
	Key        []string `json:"key,omitzero"`
	Digest     string   `json:"digest"`
	Escrow     int64    `json:"escrow"`
	Holders    int      `json:"holders"`
	Unspent    int64    `json:"unspent"`
	Unreported int64    `json:"unreported"`
	// AgeMS is for how long the server has had units of the key without a break, and TillMS in what time they expire.
	// Both are zero if it has none.
	AgeMS  int64 `json:"age_ms"`
	TillMS int64 `json:"till_ms"`
}

// Problem is a problem document (RFC 9457) with the field at fault and a remedy.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Field is the field of the request at fault, such as "headers.X-User".
	Field string `json:"field,omitempty"`
	// Remedy is what to do about it.
	Remedy string `json:"remedy,omitempty"`
	// Unknown means that the call may have changed something. If it is repeated with its Idempotency-Key, this problem
	// is the answer.
	Unknown bool `json:"-"`
}

// Error makes a problem an error, so that the decoding of a field can return it.
func (p *Problem) Error() string { return p.Detail }

// Override is an override by call.
type Override struct {
	Rule string `json:"rule"`
	// Key holds the values of the rule's key.
	Key []string `json:"key"`
	OverrideTerms
	// Ahead are the units ahead of the key, in a list of them.
	Ahead *AheadUsage `json:"ahead,omitempty"`
	// Until is when it ends; left out for never.
	Until time.Time `json:"until,omitzero"`
	Note  string    `json:"note,omitempty"`
	// By is the name that the operator gave without proof, and At the time of the call.
	By string    `json:"by,omitempty"`
	At time.Time `json:"at,omitzero"`
	// NotInForce is why the override does not apply, such as that its rule is gone.
	NotInForce string `json:"not_in_force,omitempty"`
	// Warning is what the override probably does against the operator's wish.
	Warning string `json:"warning,omitempty"`
}

// OverrideTerms are the numbers of an override, as the call gave them.
type OverrideTerms struct {
	Limit     json.RawMessage `json:"limit,omitempty"`
	Limits    json.RawMessage `json:"limits,omitempty"`
	Plan      string          `json:"plan,omitempty"`
	Unlimited bool            `json:"unlimited,omitempty"`
	Deny      bool            `json:"deny,omitempty"`
}

// Overrides is a page of the overrides of a rule. Next is where the next page begins; left out on the last one.
type Overrides struct {
	Overrides []Override `json:"overrides"`
	Next      string     `json:"next,omitempty"`
}

// OverriddenRules are the rules that have overrides by call. Kept is where overrides are kept: redis, file, or memory
// if they end with the server.
type OverriddenRules struct {
	Rules []string `json:"rules"`
	Kept  string   `json:"kept"`
}

// OverrideChanged is the answer to a change of an override. Existed says whether the key had one before, and Warning
// what the override probably does against the operator's wish.
type OverrideChanged struct {
	Rule    string    `json:"rule"`
	Key     []string  `json:"key"`
	Existed bool      `json:"existed"`
	Until   time.Time `json:"until,omitzero"`
	Kept    string    `json:"kept"`
	Warning string    `json:"warning,omitempty"`
}

// OverridesChanged is the answer to a batch, in the order of the batch.
type OverridesChanged struct {
	Overrides []OverrideChanged `json:"overrides"`
}
