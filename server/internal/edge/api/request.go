package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// request is the body of the calls that decide. It describes a request by its attributes, or names one rule
// and a key.
type request struct {
	Method   string `json:"method"`
	Host     string `json:"host"`
	Path     string `json:"path"`
	ClientIP string `json:"client_ip"`
	Headers  named  `json:"headers"`
	Cookies  named  `json:"cookies"`
	Query    named  `json:"query"`

	// Attributes are values of the caller's own, such as values of a protocol other than HTTP.
	Attributes map[string]string `json:"attributes"`
	// Claims are the claims of a token that the caller has verified.
	Claims map[string]string `json:"claims"`
	// Marked means that an earlier hop has marked the request.
	Marked bool `json:"marked"`

	Rule string `json:"rule"`
	Key  texts  `json:"key"`
	// Plan is the plan of the key; empty for none.
	Plan string `json:"plan"`

	Cost      *int64 `json:"cost"`
	MaxWaitMS *int64 `json:"max_wait_ms"`
}

// maxCost bounds costs to the integers that every JSON reader reads exactly.
const maxCost = 1 << 53

// maxMillis bounds the durations in requests: 30 days.
const maxMillis = 30 * 24 * 60 * 60 * 1000

// texts is a list of texts, or a single text.
type texts []string

// UnmarshalJSON reads a text or a list of texts.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = texts{one}
		return nil
	}
	var all []*string
	if json.Unmarshal(data, &all) != nil || slices.Contains(all, nil) {
		return invalid("key", `"key" is not a text and not a list of texts.`, `give the values of the rule's key in their order, such as ["192.0.2.1"]`)
	}
	*t = make(texts, len(all))
	for i, text := range all {
		(*t)[i] = *text
	}
	return nil
}

// byRule reports whether the request names one rule.
func (q *request) byRule() bool { return q.Rule != "" || q.Key != nil }

// check returns what is wrong with the fields that all calls share.
func (q *request) check() *problem {
	if q.byRule() {
		if q.Rule == "" {
			return invalid("rule", `There is a "key" without a "rule".`, "name the rule whose key it is")
		}
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"method", q.Method != ""},
			{"host", q.Host != ""},
			{"path", q.Path != ""},
			{"client_ip", q.ClientIP != ""},
			{"headers", q.Headers != nil},
			{"cookies", q.Cookies != nil},
			{"query", q.Query != nil},
			{"attributes", q.Attributes != nil},
			{"claims", q.Claims != nil},
			{"marked", q.Marked},
		} {
			if f.set {
				return invalid(f.name, fmt.Sprintf(`%q describes a request, and "rule" names one rule.`, f.name), `give "rule" and "key", or the attributes of a request, not both`)
			}
		}
	}
	if q.Plan != "" && !q.byRule() {
		return invalid("plan", `"plan" is for one rule, and there is no "rule".`, "give it as plan_from says, such as in attributes, or give the rule and its key")
	}
	if q.Cost != nil && (*q.Cost < 1 || *q.Cost > maxCost) {
		return invalid("cost", fmt.Sprintf(`"cost" is %d.`, *q.Cost), fmt.Sprintf("give a whole number from 1 to %d; to take nothing, call /v1/peek; to give units back, settle or cancel their reservation", int64(maxCost)))
	}
	return checkMillis("max_wait_ms", q.MaxWaitMS)
}

// checkMillis checks a duration.
func checkMillis(field string, ms *int64) *problem {
	if ms != nil && (*ms < 0 || *ms > maxMillis) {
		return invalid(field, fmt.Sprintf("%q is %d.", field, *ms), fmt.Sprintf("give milliseconds, from 0 to %d", int64(maxMillis)))
	}
	return nil
}

// maxWait returns the MaxWait of the policy package.
func (q *request) maxWait() time.Duration {
	switch {
	case q.MaxWaitMS == nil:
		return 0
	case *q.MaxWaitMS == 0:
		return sluice.NoWait
	default:
		return time.Duration(*q.MaxWaitMS) * time.Millisecond
	}
}

// attributes returns the attributes of the described request.
func (q *request) attributes(read *policy.Policy) (*policy.Attributes, *problem) {
	a := &policy.Attributes{Method: q.Method, Host: q.Host, Path: q.Path, MaxWait: q.maxWait(), Marked: q.Marked, TrustPlan: true}
	if q.Cost != nil {
		a.Cost = *q.Cost
	}
	if a.Method == "" {
		a.Method = http.MethodGet
	}
	if a.Path == "" {
		a.Path = "/"
	}
	if p := checkAttributes(a); p != nil {
		return nil, p
	}
	if !strings.HasPrefix(a.Path, "/") && (a.Path != "*" || a.Method != http.MethodOptions) {
		return nil, invalid("path", `"path" does not begin with a slash.`, "give the path of the request as it came, such as /users/7")
	}
	if strings.ContainsAny(a.Path, "?#") {
		return nil, invalid("path", `"path" holds a query or a fragment.`, `give only the path, and the parameters in "query"`)
	}
	if q.ClientIP != "" {
		ip, err := netip.ParseAddr(q.ClientIP)
		if err != nil {
			return nil, invalid("client_ip", `"client_ip" is not an IP address.`, "give one such as 192.0.2.1 or 2001:db8::1, without a port")
		}
		a.ClientIP = ip
	}
	v := values{attributes: q.Attributes, claims: q.Claims}
	if p := v.setHeaders(q.Headers); p != nil {
		return nil, p
	}
	if p := v.describe(q.Query, q.Cookies, read); p != nil {
		return nil, p
	}
	if p := v.setHost(a); p != nil {
		return nil, p
	}
	a.Values = &v
	return a, nil
}

// checkAttributes refuses what the proxy refuses, with the same remedies.
func checkAttributes(a *policy.Attributes) *problem {
	for _, err := range [...]error{policy.CheckMethod(a.Method), policy.CheckHost(a.Host)} {
		if p := refusedProblem(err); p != nil {
			return p
		}
	}
	return nil
}

// refusedProblem returns the problem of a request that is refused whatever the rules say, nil for other
// requests.
func refusedProblem(err error) *problem {
	if err == nil {
		return nil
	}
	var bad *policy.AttributeError
	if !errors.As(err, &bad) {
		return nil
	}
	return invalid(bad.Attribute, fmt.Sprintf("%q %s.", bad.Attribute, bad.Problem), bad.Remedy)
}
