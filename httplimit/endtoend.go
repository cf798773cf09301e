package httplimit

import (
	"maps"
	"net/http"
	"strings"

	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/policy"
)

// endToEnd returns the request without headers that its client names in Connection and that rules read.
// The next proxy would remove them, and the service would not see the values that the rules counted by.
// Without such headers it returns r itself.
func endToEnd(r *http.Request, p *policy.Policy) *http.Request {
	read := p.ValueHeaders()
	if len(read) == 0 {
		return r
	}
	lines := r.Header["Connection"]
	if len(lines) == 0 {
		return r
	}
	for _, line := range lines {
		for option := range strings.SplitSeq(line, ",") {
			if option = strings.Trim(option, " \t"); option == "keep-alive" || option == "close" || option == "" {
				continue
			}
			for _, name := range read {
				// Each hop has its own Upgrade and TE anyway, and a proxy reads the client's.
				if strings.EqualFold(option, name) && removal.Of(name) != removal.PerHop {
					r = without(r, name)
				}
			}
		}
	}
	return r
}

// without returns a copy of a request without a header.
func without(r *http.Request, name string) *http.Request {
	if len(r.Header[name]) == 0 {
		return r
	}
	r = r.WithContext(r.Context())
	r.Header = maps.Clone(r.Header)
	delete(r.Header, name)
	return r
}
