package driver

import (
	"context"

	"github.com/sluicehq/sluice"
)

// Grantor is a [sluice.Store] that also grants units of a key to a process ahead of requests, so that the
// process can decide requests by itself. Programs do not call
// Grant: they wrap a Grantor in the store of package hybrid.
//
// All granted units that were not yet reported as spent are the escrow of the key. Decide and
// DecideAll count the escrow as used, less the overdraft of the request's limit. So all decisions
// of all processes together stay within the limit, whether a process uses grants or not.
// All methods are safe for concurrent use.
type Grantor interface {
	sluice.Store
	// Grant answers the claims of one process in out, which is as long as claims. Claims whose keys
	// are kept together travel in one call. No two claims have the same limit and key. Each claim
	// fails on its own, in out[i].Err; after an error that wraps sluice.ErrUnknownOutcome the claim may
	// have been handled.
	//
	// The holder identifies the process: a random number that is not zero, chosen when the process
	// starts. A claim that is repeated unchanged, with the same Seq, gets the same answer and
	// charges nothing more. This holds until the Till of the answer. A later repetition is a new
	// claim.
	Grant(ctx context.Context, holder uint64, claims []Claim, out []Grant)
}

// Claim is what one process reports about one key, and what it wants. A store handles the fields in
// their order here: the report first, then the return, then the request, then the new grant.
type Claim struct {
	// Limit has hybrid terms.
	Limit *sluice.Limit
	// Key is the key of the limit.
	Key sluice.Key
	// Seq numbers the claims of a holder for a key: it rises with each new claim, from 1 to 2⁵³−1.
	// The same Seq again means the same claim again.
	Seq uint64
	// Birth is the Birth of the grant in hand, as last answered. Zero: none. Units that the holder
	// has under another Birth are lost: they count as used from now on.
	Birth uint64
	// Till is the Till of the grant in hand, as last answered. Zero: none.
	Till int64
	// Spent is how many units of the grant in hand were spent and not yet reported. Without a
	// grant in hand, they were spent on credit.
	Spent int64
	// Returned is how many units of the grant in hand will not be spent. The process deducts
	// them before it sends the claim.
	Returned int64
	// Take is the cost of a request that is decided exactly, before the new grant. Zero: no request.
	Take int64
	// Floor is how many units must remain after Take, and after the new grant.
	Floor int64
	// Want is how many units the process wants in addition to what it has in hand. Zero: none.
	Want int64
	// Least is the smallest useful grant: fewer units than Least, or than 1, are not granted.
	Least int64
	// Demand is how many thousandths of a unit per second clients request from the process on this
	// key. Shares of the key's units are proportional to the demands of its holders.
	Demand int64
}

// Grant is the answer to a Claim.
type Grant struct {
	// Err says why the claim was not handled. All other fields are zero then.
	Err error
	// Stale says that a claim with a later Seq was handled before, and that this claim has changed
	// nothing. Then Decision is a peek, Units is zero, and the fields after it are as of now.
	Stale bool
	// Decision is the decision about Take, which is charged if it is allowed. Without Take it is a
	// peek for Least units, or for one. A repeated claim gets the same verdict; the numbers are
	// as of now.
	Decision sluice.Decision
	// Units is how many units were granted for this Seq.
	Units int64
	// Held is how many units the holder has in escrow now.
	Held int64
	// Birth identifies the units in escrow: it is the Seq of their first grant. Zero if there are none.
	Birth uint64
	// Now is the store's time of the answer, in microseconds since the Unix epoch.
	Now int64
	// Till is the store's time at which all held units expire: what was not reported by then
	// counts as used. The answer to the same Seq is kept until then, even if there are no units.
	Till int64
	// Free is the capacity less what is used and in escrow, rounded down. It is negative if the
	// key is in excess of its capacity.
	Free int64
	// Escrow is how many units all holders have in escrow.
	Escrow int64
	// Holders is how many processes hold units of the key, or wanted some in their last claim. A
	// store bounds the processes that it remembers; a further process gets no units: its claims
	// are decided, and count again if repeated.
	Holders int
	// Demands is the sum of the Demand of these processes, at least one for each. While units are
	// short, a process wants the part of them that its own demand is of this sum.
	Demands int64
	// Others says that processes which are not among the holders have taken units within the last
	// second, by requests that were decided exactly. These take what comes free, so a process with a pace gets less
	// than its part. A holder marks its own exact requests by a negative MaxWait: they do not count here.
	Others bool
}
