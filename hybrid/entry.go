package hybrid

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// entry is what the store has of one limit's key. The first fields never change. The others belong
// to the goroutine that has locked the entry.
type entry struct {
	hash   uint64
	id     [2]uint64 // Limit.ID
	key    sluice.Key
	serial uint64 // the order in which several entries are locked
	next   atomic.Pointer[entry]

	mu    sync.Mutex
	dead  bool // no longer in the table
	used  bool // since the clock hand was here
	hot   bool // requested often enough for grants
	awake bool // among the entries that are synchronised
	// called says that the entry is in the list of entries to synchronise soon, and prefetch that it
	// has few units left.
	called, prefetch bool

	limit *sluice.Limit // terms.limit
	terms *terms

	hand hand
	// stamp is in the receipts of all charges that are in hand and in no claim yet. It changes with
	// each claim, and when such charges are gone.
	stamp uint64
	// low is the number of units in hand below which a decision calls for the synchronisation.
	low int64

	// requests and units count all requests. Each is counted once, also if it is denied.
	requests, units uint64
	demand          demand
	denial          denial
	pace            pace

	open    *openClaim // the claim without an answer, or nil
	due     int64      // when to synchronise next, by the monotonic clock
	exact   int64      // until then requests are exact, because the store grants nothing
	rivals  int64      // until then exact requests of other processes take what comes free
	resets  uint32     // counts what ends denials: Reset, and changed limits
	changed bool       // the units in hand are of a limit with other numbers: return them

	seen   seen
	counts counts
	follow *entry // the next entry in the list of entries to synchronise soon
}

// seen is what the store has answered last about a key.
type seen struct {
	offset  int64 // the server's time less the monotonic clock, in microseconds
	resetAt int64 // when the key has all its units again, by the monotonic clock
	since   int64 // when the units in hand were first granted, by the monotonic clock
	free    int64
	escrow  int64
	holders int
}

func (e *entry) lock() { e.mu.Lock() }

func (e *entry) unlock() { e.mu.Unlock() }

// adopt makes the entry one of another version of its limit. Units of a limit with other numbers
// are returned, and its denials end.
func (e *entry) adopt(v *terms) {
	if same(e.limit, v.limit) {
		e.replace(v)
		return
	}
	e.replace(v)
	e.forgive()
	e.exact, e.rivals, e.pace = 0, 0, pace{}
	switch {
	case e.hand.birth != 0:
		e.hand.deadline, e.changed = instant{}, true
	case e.hand.deadline == never:
		e.hand.left, e.hand.placed = 0, e.hand.unreported() // credit of other numbers
		e.hand.deadline = instant{}
	}
}

func (e *entry) replace(v *terms) {
	e.terms.entries.Add(-1)
	e.terms, e.limit = v, v.limit
}

// forgive ends what the entry has of denials.
func (e *entry) forgive() {
	e.resets++
	e.denial = denial{}
	e.pace.until = 0
}

// idle reports whether the entry has nothing that the store must hear of.
func (e *entry) idle() bool {
	return e.open == nil && e.hand.birth == 0 && e.hand.unreported() == 0 && (e.hand.left == 0 || e.hand.deadline == never && e.hand.left == e.terms.credit)
}

// owes reports whether the key has lost its credit, and may not have all its units back yet. A new
// entry would get new credit.
func (e *entry) owes(now int64) bool {
	return e.terms.credit > 0 && e.hand.deadline != never && now < e.seen.resetAt
}

// hand is what the process may spend of a key: units of a grant, or its credit if birth is zero.
// What it has spent and not put into a claim is placed - left.
type hand struct {
	left, placed int64
	floor        int64   // requests with a higher floor may not spend them
	deadline     instant // zero: nothing may be spent
	birth        uint64
	till         int64
	held         int64 // what the store had of the grant in escrow, as last answered: it books this at the end
}

// unreported returns how many units were spent and are not in any claim.
func (h *hand) unreported() int64 { return h.placed - h.left }

// has reports whether a request can be decided by the units in hand.
func (h *hand) has(cost, floor int64, now instant) bool {
	return cost <= h.left && floor <= h.floor && now.before(h.deadline)
}

// denial is the last denial of the store. It also denies requests for more units, or with a higher
// floor.
type denial struct {
	cost, floor    int64
	until          int64 // by the monotonic clock, as the other times
	retryAt, reset int64
	remaining      int64
}

// longestDenial bounds how long a denial is kept.
const longestDenial = 100 * int64(time.Millisecond)

func (d *denial) denies(cost, floor, now int64) bool {
	return now < d.until && cost >= d.cost && floor >= d.floor
}

// deniedBy keeps a decision of the store, if it is a denial that time ends. Beside exact requests of other processes,
// it keeps none that ends soon: these requests come all the time, and one that comes when units are free already comes
// too late.
func (e *entry) deniedBy(d *sluice.Decision, cost, floor, now int64, random float64) {
	if now >= e.rivals || int64(d.RetryAfter) >= longestDenial {
		e.denial.keep(d, cost, floor, now, random)
	}
}

// keep keeps a decision of the store, if it is a denial that time ends. random is between 0 and 1.
func (d *denial) keep(by *sluice.Decision, cost, floor, now int64, random float64) {
	if by.Allowed || by.Reason != sluice.ReasonLimited || by.RetryAfter <= 0 {
		return
	}
	held := min(int64(by.RetryAfter), longestDenial)
	held -= int64(float64(held) * random / 8) // processes come back at different times
	if now < d.until && d.until >= now+held && d.cost <= cost && d.floor <= floor {
		return // the other one denies this too, and for longer
	}
	*d = denial{
		cost: cost, floor: floor, until: now + held,
		retryAt: now + int64(by.RetryAfter), reset: now + int64(by.ResetAfter), remaining: by.Remaining,
	}
}
