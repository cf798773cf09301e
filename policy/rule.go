package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/sluicehq/sluice"
)

// Rule says which requests it is for, whom they count for, how much each may
// have, and what happens to the others. Rules are independent: all rules that match a request
// apply, and it passes only if all of them let it pass.
type Rule struct {
	// Name is unique in its policy: letters, digits, dots, dashes and underscores.
	// The state of the rule's limits is kept under it.
	Name string
	// Match says which requests the rule is for; the zero Match is for all of them.
	Match Match
	// Key says whom the limits count for: one part or more. For one budget
	// shared by everybody, give Global(). A rule that is Always limited may have none.
	Key []Part
	// Limits are one or more; all must hold. The policy makes their state the
	// rule's own: the first limit is kept as "rule", the n-th as "rule/n", one
	// that was given a name as "rule/name", which must be unique in the rule. A
	// rule with a Bandwidth may have none, and one that is Always limited has none.
	Limits []*sluice.Limit
	// Always limits each request that the rule matches, without limits or a key: to drop marked traffic
	// while there is pressure, to degrade all traffic then, or to mark some for what it is.
	Always bool
	// Candidate are limits that are tried out beside the limits in force: decided, counted and
	// explained, and never enforced. They are kept as "rule/candidate/n" or "rule/candidate/name".
	Candidate []*sluice.Limit
	// Overrides are other numbers for some keys. Looking one up takes the same
	// time whether there is one or a hundred thousand.
	Overrides []Override
	// AllowKeys are keys that the rule lets pass without its limits, each given as in
	// RuleRequest.Key; DenyKeys are keys that it refuses. Denying wins.
	AllowKeys, DenyKeys [][]string
	// AllowIPs and DenyIPs are the same for networks of clients. They may be many:
	// finding an address takes the logarithm of their number.
	AllowIPs, DenyIPs []netip.Prefix
	// Cost is how many units a request takes. Default: the cost of the request, or one.
	Cost Cost
	// CountStatus counts only requests whose response has one of these statuses, such as 401
	// for failed logins. The units are taken before the request is handled, so that many at once do
	// not pass, and given back after it if the status is another one. Default: any response counts.
	// To count denied requests too, give limits that count them, such as a SlidingLog with CountDenied.
	CountStatus []StatusRange
	// Floor is how many units must remain after the take: what is reserved for more
	// important traffic, which a rule without it takes.
	Floor int64
	// Reserved keeps the last units of each limit for some classes of traffic.
	Reserved []Reserve
	// MaxWait is the longest delay that is acceptable, sluice.NoWait for none. Zero
	// means what each limit offers by itself.
	MaxWait time.Duration
	// MaxWaiting is the size of the rule's waiting queue in one process, up to a million requests.
	// More are refused at once. Default: 1,024.
	MaxWaiting int
	// MaxWaitingPerKey is how many of them may have the same key. Default: a quarter of MaxWaiting, and at least one.
	MaxWaitingPerKey int
	// Bandwidth paces the bytes of each key's requests; nil for no pacing.
	Bandwidth *Bandwidth
	// Ban refuses a key outright for a time after too many denials; nil for no ban.
	Ban *sluice.Ban
	// Shadow decides, counts and explains, and enforces nothing.
	Shadow bool
	// WhenLimited says what happens to a request that the limits do not let pass.
	WhenLimited LimitedAction
	// OnStoreError says what becomes of a request when the store cannot decide. Deny, of a
	// rule that degrades or marks, does that.
	OnStoreError Fallback
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
	// attempts to log in. If several rules apply to a request, one is enough.
	FallbackDeny
	// FallbackLocal limits the request in this process, to its share of the limit.
	// It is for a guard.Store, which decides then instead of failing. If the store fails all the
	// same, as one without a guard does, the request passes.
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

// Override is what one key of a rule may have instead of the rule's own limits:
// the same limits with other numbers, so that what the key has used stays used when
// its override comes, changes or goes.
type Override struct {
	// Key is the key, given as in RuleRequest.Key.
	Key []string
	// Limits are as many as the rule's, in their order. Equal limits may share one value.
	Limits []*sluice.Limit
}

// Bandwidth paces the bytes of requests, all of one key together. A gate carries it out.
type Bandwidth struct {
	// Down is the rate of what clients receive, in bytes; zero for no pacing.
	Down sluice.Rate
	// Up is the rate of what clients send, in bytes; zero for no pacing.
	Up sluice.Rate
}

// Paced is a rule with a Bandwidth that applies to a request, and the key whose bytes are paced.
type Paced struct {
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
