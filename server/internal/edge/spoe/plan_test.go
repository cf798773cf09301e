package spoe

import (
	"regexp"
	"testing"

	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
)

// HAProxy names plans. Its own peer may be a client or a trusted proxy.
func TestPlansOfHAProxy(t *testing.T) {
	t.Parallel()
	outcome := regexp.MustCompile(`(?s)action=allow .*header\.ratelimit_policy=(\S+)|action=deny .* status=(\d+)`)
	for _, src := range []string{"192.0.2.1", "10.0.0.1"} {
		edgetest.ReportedPlans(t, func(rules string) func(...string) string {
			p := serve(t, rules, nil).greeted("")
			return func(header ...string) string {
				answer := p.notify(message("GET", "/t", src, append([]string{"host", "a.example"}, header...)...))
				if parts := outcome.FindStringSubmatch(answer); parts != nil {
					return parts[1] + parts[2]
				}
				return answer
			}
		})
	}
}
