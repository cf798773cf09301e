package proxy

import (
	"net/http"
	"strings"

	"github.com/sluicehq/sluice/internal/removal"
)

// removes reports whether a header is removed from requests of a peer, in any spelling.
func (p *Proxy) removes(name string, trusted bool) bool {
	switch removal.Of(name) {
	case removal.Stays:
		return false
	case removal.Proxied:
		return !trusted
	case removal.Overriding:
		return !p.o.MethodOverride
	default:
		return true
	}
}

// upgrades reports whether the upgrade of a request is passed on: to one protocol, of
// Options.Upgrades. The service could take more requests in another upgrade, past all limits. HTTP/1.0 has no upgrades.
func (p *Proxy) upgrades(r *http.Request) bool {
	lines := r.Header["Upgrade"]
	if len(lines) != 1 || r.ContentLength != 0 || !r.ProtoAtLeast(1, 1) {
		return false
	}
	for _, protocol := range p.o.Upgrades {
		if strings.EqualFold(lines[0], protocol) {
			return true
		}
	}
	return false
}
