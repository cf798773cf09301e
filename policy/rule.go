package policy

import (
	"time"

	"github.com/sluicehq/sluice"
)

// Rule says which requests it is for, whom they count for, how much each may
// have, and what happens to the others. Rules are independent: a request meets
// all that match it, and passes only if all of them let it.
type Rule struct {
	// Name is unique in its policy: letters, digits, dots, dashes and underscores.
	// The state of the rule's limits is kept under it.
	Name string
	// Match says which requests meet the rule; the zero Match is for all of them.
	Match Match
	// Key says whom the limits count for: one part or more. For one budget
	// shared by everybody, give Global().
	Key []Part
	// Limits are one or more; all must hold. The policy makes their state the
	// rule's own: the first limit is kept as "rule", the n-th as "rule/n", one
	// that was given a name as "rule/name", which must be unique in the rule.
	Limits []*sluice.Limit
	// Cost is how many units a request takes. Default: that of the request, or one.
	Cost Cost
	// Floor is how many units must remain after the take: what is reserved for more
	// important traffic, which a rule without it takes.
	Floor int64
	// MaxWait is the longest delay that is acceptable, sluice.NoWait for none. Zero
	// means what each limit offers by itself.
	MaxWait time.Duration
	// Ban refuses a key outright for a time after too many denials; nil for no ban.
	Ban *sluice.Ban
	// Shadow decides, counts and explains, and enforces nothing.
	Shadow bool
	// WhenLimited is the answer to a request that this rule refuses.
	WhenLimited Response
	// OnStoreError says what becomes of a request when the store cannot decide.
	OnStoreError Fallback
}

// Response is the answer to a refused request, for an edge to send. The zero
// Response leaves it to the edge: over HTTP, status 429 and a problem document.
type Response struct {
	// Status is an HTTP status from 400 to 599. Default: 429.
	Status int
	// Header holds headers to set.
	Header map[string]string
	// ContentType is that of Body. Default: "text/plain; charset=utf-8" if there is a Body.
	ContentType string
	// Body is sent as it is. Default: the edge's own.
	Body string
}

// Fallback says what becomes of a request when the store cannot decide.
type Fallback uint8

const (
	// FallbackDefault leaves it to Options.OnStoreError, and that is FallbackAllow unless set.
	FallbackDefault Fallback = iota
	// FallbackAllow lets the request pass: a limiter that fails should not take
	// the service with it.
	FallbackAllow
	// FallbackDeny refuses the request: for what must not run unlimited, such as
	// attempts to log in. Of several rules that a request meets, one is enough.
	FallbackDeny
	// FallbackLocal limits the request in this process, to its share of the limit.
	// It is for a store with package guard over it, which then answers instead of failing. Of
	// what fails all the same, as a store without a guard does, it lets the request pass.
	FallbackLocal
)

// String returns the fallback in a word.
func (f Fallback) String() string {
	switch f {
	case FallbackAllow:
		return "allow"
	case FallbackDeny:
		return "deny"
	case FallbackLocal:
		return "local"
	default:
		return "default"
	}
}
