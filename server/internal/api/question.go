package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// question is what the calls that decide are asked: about a request, by its
// attributes, or about one rule, by its name and key.
type question struct {
	Method   string            `json:"method"`
	Host     string            `json:"host"`
	Path     string            `json:"path"`
	ClientIP string            `json:"client_ip"`
	Headers  map[string]string `json:"headers"`
	Cookies  map[string]string `json:"cookies"`
	Query    map[string]string `json:"query"`

	// Attributes are values of the caller's own: those of a protocol that is not HTTP.
	Attributes map[string]string `json:"attributes"`
	// Claims are those of a token that the caller has verified.
	Claims map[string]string `json:"claims"`
	// Marked says that an earlier hop has marked the request.
	Marked bool `json:"marked"`

	Rule string `json:"rule"`
	Key  texts  `json:"key"`

	Cost      *int64 `json:"cost"`
	MaxWaitMS *int64 `json:"max_wait_ms"`
}

// maxCost bounds costs: what a double holds exactly, as JSON's readers do.
const maxCost = 1 << 53

// maxMillis bounds the durations in requests: 30 days.
const maxMillis = 30 * 24 * 60 * 60 * 1000

// texts is a list of texts, or one alone.
type texts []string

// UnmarshalJSON reads a text or a list of texts.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = texts{one}
		return nil
	}
	var all []string
	if json.Unmarshal(data, &all) != nil {
		return invalid("key", `"key" is neither a text nor a list of texts.`, `give the values of the rule's key in their order, such as ["192.0.2.1"]`)
	}
	*t = all
	return nil
}

// byRule reports whether the question is about one rule.
func (q *question) byRule() bool { return q.Rule != "" || q.Key != nil }

// check reports what is wrong with a question, whatever it is about.
func (q *question) check() *problem {
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
				return invalid(f.name, fmt.Sprintf(`%q describes a request, and "rule" asks about one rule.`, f.name), `give "rule" and "key", or the attributes of a request, not both`)
			}
		}
	}
	if q.Cost != nil && (*q.Cost < 1 || *q.Cost > maxCost) {
		return invalid("cost", fmt.Sprintf(`"cost" is %d.`, *q.Cost), fmt.Sprintf("give a whole number from 1 to %d; to take nothing, ask /v1/peek; to give units back, settle or cancel their reservation", int64(maxCost)))
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

// maxWait returns what the policy knows as MaxWait.
func (q *question) maxWait() time.Duration {
	switch {
	case q.MaxWaitMS == nil:
		return 0
	case *q.MaxWaitMS == 0:
		return sluice.NoWait
	default:
		return time.Duration(*q.MaxWaitMS) * time.Millisecond
	}
}

// attributes returns the request that the question is about.
func (q *question) attributes() (*policy.Attributes, *problem) {
	a := &policy.Attributes{Method: q.Method, Host: q.Host, Path: q.Path, MaxWait: q.maxWait(), Marked: q.Marked}
	if q.Cost != nil {
		a.Cost = *q.Cost
	}
	if a.Method == "" {
		a.Method = http.MethodGet
	}
	if a.Path == "" {
		a.Path = "/"
	}
	if !strings.HasPrefix(a.Path, "/") {
		return nil, invalid("path", `"path" does not begin with a slash.`, "give the path of the request as it came, such as /users/7")
	}
	if strings.ContainsAny(a.Path, "?#") {
		return nil, invalid("path", `"path" holds a query or a fragment.`, `give the path alone, and the parameters in "query"`)
	}
	if q.ClientIP != "" {
		ip, err := netip.ParseAddr(q.ClientIP)
		if err != nil {
			return nil, invalid("client_ip", `"client_ip" is no IP address.`, "give one such as 192.0.2.1 or 2001:db8::1, without a port")
		}
		a.ClientIP = ip
	}
	v := values{
		headers: make(map[string]string, len(q.Headers)), cookies: q.Cookies, query: q.Query,
		attributes: q.Attributes, claims: q.Claims,
	}
	for name, value := range q.Headers {
		canonical := http.CanonicalHeaderKey(name)
		if _, twice := v.headers[canonical]; twice {
			return nil, invalid("headers."+name, "The same header is given in two spellings.", "give it once")
		}
		v.headers[canonical] = value
	}
	a.Values = &v
	return a, nil
}

// values are the named parts of a request that a question gives.
type values struct {
	headers, cookies, query map[string]string
	attributes, claims      map[string]string
}

var (
	_ policy.Values          = (*values)(nil)
	_ policy.AttributeValues = (*values)(nil)
	_ policy.ClaimValues     = (*values)(nil)
)

func (v *values) Header(name string) (string, bool) {
	value, ok := v.headers[name]
	return value, ok
}

// Cookie looks among the cookies, and then into the Cookie header if there is one.
func (v *values) Cookie(name string) (string, bool) {
	if value, ok := v.cookies[name]; ok {
		return value, true
	}
	if line, ok := v.headers["Cookie"]; ok {
		all, err := http.ParseCookie(line)
		if err != nil {
			return "", false
		}
		for _, c := range all {
			if c.Name == name {
				return c.Value, true
			}
		}
	}
	return "", false
}

func (v *values) Query(name string) (string, bool) {
	value, ok := v.query[name]
	return value, ok
}

func (v *values) Attribute(name string) (string, bool) {
	value, ok := v.attributes[name]
	return value, ok
}

// Claim knows those that are given. A token in the headers is not looked into: nobody says that it was verified.
func (v *values) Claim(name string) (string, bool) {
	value, ok := v.claims[name]
	return value, ok
}
