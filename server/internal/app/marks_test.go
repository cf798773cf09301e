package app

import (
	"fmt"
	"net/http"
	"testing"
)

// In a chain of two servers, the first marks what is beyond each tenant's contract, and the
// second drops that first when there is congestion; marks of clients count at neither, and
// the marks of a hop only where it is trusted.
func TestMarksOfAnEarlierHop(t *testing.T) {
	service := behind(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Sluice-Marked"), r.Header.Get("X-Excess"))
	})
	const own = `
rules:
  - {name: own, match: {path: /own}, key: global, limit: {algorithm: fixed_window, rate: 9/h}, when_limited: {action: mark, request_header: {X-Excess: "yes"}}}`
	second := func(settings string) *running {
		return start(t, parse(t, free+settings+"upstream: "+service+own+`
  - {name: service, key: global, limit: {algorithm: fixed_window, rate: 40/h}}
  - {name: drop, match: {marked: true, pressure: {of: service, at_least: 50%}}, always: true, when_limited: {status: 503}}
`), nil)
	}
	first := func(behind *running) *running {
		return start(t, parse(t, free+"upstream: "+behind.URL(Proxy)+own+`
  - {name: contract, key: "header:X-Tenant", limit: {algorithm: fixed_window, rate: 4/h}, when_limited: {action: mark}}
`), nil)
	}
	for _, c := range []struct {
		name, settings string
		mark           string // that the service sees
		dropped        int    // what becomes of marked traffic
	}{
		{"trusted", "trusted_proxies: [127.0.0.0/8]\ntrust_marks: true\n", "contract", http.StatusServiceUnavailable},
		{"another is trusted", "trusted_proxies: [192.0.2.0/24]\ntrust_marks: true\n", "", http.StatusOK},
		{"only its addresses are believed", "trusted_proxies: [127.0.0.0/8]\n", "", http.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			inner := second(c.settings)
			edge := first(inner)
			ask := func(r *running, n, status int, mark string, header ...string) {
				t.Helper()
				for i := range n {
					res, body := r.send(Proxy, http.MethodGet, "/", "", header...)
					if res.StatusCode != status || status == http.StatusOK && body != mark {
						t.Errorf("%q: %d of %d answers %d, and the service sees the mark %q; want %d and %q", header, i+1, n, res.StatusCode, body, status, mark)
					}
				}
			}
			ask(edge, 4, http.StatusOK, "", "X-Tenant", "a", "Sluice-Marked", "forged", "Connection", "Sluice-Marked")
			ask(edge, 6, http.StatusOK, c.mark, "X-Tenant", "a") // marked, and there is room
			ask(edge, 4, http.StatusOK, "", "X-Tenant", "b")
			ask(edge, 4, http.StatusOK, "", "X-Tenant", "c")
			ask(edge, 3, http.StatusOK, "", "X-Tenant", "d")
			// The demand is now a little more than half of what the service can take.
			ask(edge, 1, c.dropped, "", "X-Tenant", "a", "Sluice-Marked", "forged")
			ask(edge, 1, http.StatusOK, "", "X-Tenant", "d", "Sluice-Marked", "forged", "X-Excess", "forged")
			if c.mark != "" {
				// So does another header in which the second one marks, which is why the first one has to know it.
				ask(inner, 1, http.StatusServiceUnavailable, "", "X-Excess", "yes")
			}
		})
	}
}
