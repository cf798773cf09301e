package httplimit

import (
	"net/http"

	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/policy"
)

// inForce is a policy with what a Decider derives from it. Each request takes one at its beginning and keeps it, so
// one policy applies to a request from beginning to end.
type inForce struct {
	*policy.Policy
	names     readNames
	trusts    bool     // TrustPlan says which requests may name their plan
	removable []string // the headers that rules read and that a proxy may remove
}

// inForce returns the policy in force.
func (d *Decider) inForce() *inForce {
	p := d.Policy()
	f := d.last.Load()
	if f == nil || f.Policy != p {
		f = &inForce{Policy: p, names: namesOf(p), trusts: p.TrustsPlans()}
		for _, name := range p.ReadHeaders() {
			if removal.Of(name) != removal.Stays {
				f.removable = append(f.removable, name)
			}
		}
		d.last.Store(f)
	}
	return f
}

// readOnce returns the names that the policy reads in a request with a long query or long cookies; nil for another
// request, and for a policy that reads no more than one of each.
func (f *inForce) readOnce(r *http.Request) *readNames {
	if f.names.isFew() || !isLong(r) {
		return nil
	}
	return &f.names
}

// arriving returns the request without headers that PolicyOptions.Removes reports and that rules read. Without such
// headers it returns r itself.
func (d *Decider) arriving(r *http.Request, p *inForce) *http.Request {
	for _, name := range p.removable {
		if len(r.Header[name]) > 0 && d.o.Removes(r, name) {
			r = without(r, name)
		}
	}
	return r
}
