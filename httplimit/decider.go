package httplimit

import (
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Decider decides about requests. KeyDecider and PolicyDecider are the ones of
// this package. All methods are safe for concurrent use.
type Decider interface {
	// Decide decides about r and charges for it, in one step and before r is
	// handled: what is decided first and charged later lets concurrent requests
	// pass that do not fit together.
	Decide(r *http.Request) policy.Verdict
	// Store is where a verdict's charges are canceled, settled and released. It
	// may be nil if verdicts never hold charges.
	Store() sluice.Store
	// Reserved returns the names, in canonical form, of headers that tell the service behind
	// what the decider's rules say of r: they are removed from what the client sent, trailers too. Nil
	// if there are none, or if r comes from a hop that is trusted to set them.
	Reserved(r *http.Request) []string
}
