package guard

import "time"

// Stats are figures about a Store since it was made.
type Stats struct {
	// State is that of the breaker, and Since when it began.
	State State
	Since time.Time
	// InFlight is how many calls of the store have not returned.
	InFlight int
	// Leases is how many leases are remembered.
	Leases int

	// Answered counts the calls that the store answered, those that were Slow among them.
	Answered, Slow uint64
	// Failed counts the calls that gave an error or no answer in time, those that were
	// Late among them.
	Failed, Late uint64
	// GivenUp counts the calls whose caller's own context ended.
	GivenUp uint64
	// Refused counts the calls that were not made, because the breaker was open;
	// Shed those because too many were in flight.
	Refused, Shed uint64
	// Local, Allowed and Denied count the decisions of each rung of the ladder; Held those
	// about leases that the store had granted before it failed. A batch counts each request.
	Local, Allowed, Denied, Held uint64
	// Opened counts how often the breaker opened from closed.
	Opened uint64
	// Last is the last failure, nil if there was none.
	Last error
}
