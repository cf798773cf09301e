package wire

import (
	"time"

	"github.com/sluicehq/sluice"
)

// KeptOverride is what a key of a rule has in place of the rule's numbers, as the store keeps it for the decision API.
// Its terms are JSON.
type KeptOverride struct {
	// Rule and Key say whose override it is.
	Rule string
	Key  sluice.Key
	// Terms are the numbers, in the JSON of the call.
	Terms string
	// Until is when it ends, in whole seconds; the zero time for never.
	Until time.Time
	// Note is what the operator wrote, By the name that the operator gave, and At the time of the call.
	Note, By string
	At       time.Time
	// Removed means that there is none. A change with it removes the override.
	Removed bool
}
