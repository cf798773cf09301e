package protocols

import (
	"fmt"
	"strings"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicehq/sluice/checks/redistest"
)

// twoServices are quotas of two services, which the gateway learns from the metadata.
const twoServices = `domain: edge
descriptors:
  - {key: service, value: small, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1}, metadata: {has_quota: {name: small}}}
  - {key: service, value: large, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 2}, metadata: {has_quota: {name: large}}}
  - {key: tokens, rate_limit: {unit: year, requests_per_unit: 100}}
`

// inPlace returns servers with a configuration of Envoy's rate limit service, by where they count.
func inPlace(text string) map[string]func(*testing.T) *envoy {
	return map[string]func(*testing.T) *envoy{
		"memory": func(t *testing.T) *envoy { t.Helper(); return startInPlace(t, writeRuntime(t, text), "") },
		"redis": func(t *testing.T) *envoy {
			t.Helper()
			return startInPlace(t, writeRuntime(t, text), redistest.Start(t).Addr())
		},
		"hybrid": func(t *testing.T) *envoy {
			t.Helper()
			return startInPlace(t, writeRuntime(t, hybrid(text)), redistest.Start(t).Addr())
		},
	}
}

// hybrid makes the limits of a configuration hybrid, except limits that count nothing.
func hybrid(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if at := strings.Index(line, "rate_limit: {unit"); at >= 0 && !strings.Contains(line, "requests_per_unit: 0") {
			between := ", "
			if strings.TrimSpace(line[:at]) == "" { // a block
				between = "\n" + line[:at]
			}
			line = line[:at] + "hybrid: {stranded: 100%}" + between + line[at:]
		}
		b.WriteString(line)
	}
	return b.String()
}

// hitsOf is a call about values of a key, with the same number of hits for each.
func hitsOf(n uint64, key string, values ...string) *ratelimitpb.RateLimitRequest {
	q := call()
	for _, value := range values {
		d := one(key, value)
		d.HitsAddend = wrapperspb.UInt64(n)
		q.Descriptors = append(q.Descriptors, d)
	}
	return q
}

// passes reports whether a call passes.
func (e *envoy) passes(q *ratelimitpb.RateLimitRequest) bool {
	e.Helper()
	return e.answer(q).GetOverallCode() == ratelimitpb.RateLimitResponse_OK
}

// TestTokenQuotas does what Envoy does with apply_on_stream_done: a request is admitted by a look of 0 hits, and what it has
// cost is charged after its end, whatever is left.
func TestTokenQuotas(t *testing.T) {
	t.Parallel()
	for name, start := range inPlace(twoServices) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t)
			// One quota: 2 hits are left at first, so the third request is the first one to exceed them.
			for i, want := range []bool{true, true, true, false, false} {
				got := e.passes(hitsOf(0, "service", "large"))
				if got != want {
					t.Errorf("request %d passes: %v", i+1, got)
				}
				if got {
					e.answer(hitsOf(1, "service", "large"))
				}
			}
			// Tokens: each request costs 40 of 100.
			for i, want := range []bool{true, true, true, false} {
				got := e.passes(hitsOf(0, "tokens", "ann"))
				if got != want {
					t.Errorf("request %d for tokens passes: %v", i+1, got)
				}
				if got {
					e.answer(hitsOf(40, "tokens", "ann"))
				}
			}
		})
	}
}

// TestTokenQuotasOfServices is the same for a gateway that looks at two services, and sends the request to the one with quota
// that the answer names first.
func TestTokenQuotasOfServices(t *testing.T) {
	t.Parallel()
	for name, start := range inPlace(twoServices) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t)
			for i, want := range []string{"small", "small", "large", "large", "large", "refused", "refused"} {
				v := e.answer(hitsOf(0, "service", "small", "large"))
				got := "refused"
				if v.GetOverallCode() == ratelimitpb.RateLimitResponse_OK {
					of := v.GetDynamicMetadata().GetFields()["metadata"].GetStructValue().GetFields()["has_quota"].GetStructValue()
					got = of.GetFields()["name"].GetStringValue()
					e.answer(hitsOf(1, "service", got))
				}
				if got != want {
					t.Errorf("request %d: %s, want %s: %s", i+1, got, want, fmt.Sprint(v))
				}
			}
		})
	}
}
