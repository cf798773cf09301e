package app

import (
	"net/http"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/removal"
)

// removes returns a function that reports whether a service does not get a header of a request as it came. Headers that
// only proxies set count from trusted ones. The argument methods says whether headers that replace the method are passed on.
func removes(ip *httplimit.ClientIP, methods bool) func(*http.Request, string) bool {
	return func(r *http.Request, name string) bool {
		why := removal.Of(name)
		return !why.FromClients(methods) && (!why.FromProxies() || !ip.TrustsPeer(r))
	}
}
