package extauthz

import (
	"strconv"
	"strings"
	"testing"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
)

// Envoy names plans, in raw headers and in headers whose lines it has joined. Its own peer may be a client or a trusted proxy.
func TestPlansOfEnvoy(t *testing.T) {
	joined := func(path, peer string, headers ...string) *authpb.CheckRequest {
		lines := map[string]string{}
		for i := 0; i < len(headers); i += 2 {
			name := strings.ToLower(headers[i])
			if before, twice := lines[name]; twice {
				lines[name] = before + ","
			}
			lines[name] += headers[i+1]
		}
		q := request(path, peer)
		for name, value := range lines {
			q.GetAttributes().GetRequest().GetHttp().Headers[name] = value
		}
		return q
	}
	for _, report := range []func(path, peer string, headers ...string) *authpb.CheckRequest{raw, joined} {
		for _, peer := range []string{"192.0.2.1", "10.0.0.1"} {
			edgetest.ReportedPlans(t, func(rules string) func(...string) string {
				w := newWorld(t, rules)
				return func(header ...string) string {
					v, err := w.Check(t.Context(), report("/t", peer, header...))
					if err != nil {
						t.Fatalf("Envoy reports %q, and gets %v", header, err)
					}
					if d := v.GetDeniedResponse(); d != nil {
						return strconv.Itoa(int(d.GetStatus().GetCode()))
					}
					for _, h := range v.GetOkResponse().GetResponseHeadersToAdd() {
						if h.GetHeader().GetKey() == "Ratelimit-Policy" {
							return h.GetHeader().GetValue()
						}
					}
					return "no limit"
				}
			})
		}
	}
}
