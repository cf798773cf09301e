package denial

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
)

// Types of problems, from draft-ietf-httpapi-ratelimit-headers-10.
const (
	// TypeQuotaExceeded: a limit is used up.
	TypeQuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	// TypeReducedCapacity: the service has less to give than usual.
	TypeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	// TypeAbnormalUsage: the client is banned.
	TypeAbnormalUsage = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
	// TypeBlank: the status says it all.
	TypeBlank = "about:blank"
)

// Problem is a problem document, RFC 9457.
type Problem struct {
	// Type is a URI that says what kind of problem it is.
	Type string `json:"type"`
	// Title says the same in words.
	Title string `json:"title"`
	// Status is the status of the response.
	Status int `json:"status"`
	// Detail says what is special about this occurrence.
	Detail string `json:"detail,omitempty"`
	// ViolatedPolicies names the limits that refused the request, as
	// RateLimit-Policy does.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// NewProblem describes a denial. It names limits. It contains nothing of the request except the name of
// a missing part.
func NewProblem(v *policy.Verdict) *Problem {
	p := &Problem{Type: TypeBlank, Status: Status(v)}
	switch {
	case v.Missing != nil:
		lacks := "The request lacks "
		if v.Reason == sluice.ReasonRepeatedKey {
			lacks = "The request has several values, or an unclear one, for "
		}
		p.Detail = lacks + "what it is counted by."
		if v.Missing.Name != "" {
			p.Detail = lacks + v.Missing.Name + ", by which it is counted."
		}
		if v.Reason == sluice.ReasonRepeatedKey {
			p.Detail += " Remedy: " + v.Missing.OnceRemedy() + "."
		}
	case ambiguity(v) != nil:
		p.Detail = "The request's " + ambiguity(v).Attribute + " " + ambiguity(v).Problem + "."
	case isInvalid(v.Err):
		p.Detail = "The request's cost is less than nothing."
	case v.Reason == sluice.ReasonNoRule:
		p.Detail = "No rule lets this request pass."
	case v.Reason == sluice.ReasonListed && errors.As(v.Refused, new(*policy.ModelError)):
		p.Detail = "The model of this request has no price here, so it may not be used."
	case v.Reason == sluice.ReasonUnknownPlan:
		p.Detail = "The plan of this request is unknown."
	case v.Reason == sluice.ReasonListed:
		p.Detail = "Requests of this client are not let pass."
	case v.Reason == sluice.ReasonStoreError:
		p.Type, p.Title = TypeReducedCapacity, "Temporarily reduced capacity"
		p.Detail = "Limits cannot be checked at the moment."
	case isBusy(v):
		p.Type, p.Title = TypeReducedCapacity, "Temporarily reduced capacity"
	case v.Reason == sluice.ReasonBanned:
		p.Type, p.Title = TypeAbnormalUsage, "Abnormal usage detected"
		p.ViolatedPolicies = violated(v)
	default:
		p.Type, p.Title = TypeQuotaExceeded, "Quota exceeded"
		p.ViolatedPolicies = violated(v)
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	return p
}

// violated names the limits that refused a request.
func violated(v *policy.Verdict) []string {
	var names []string
	for i := range v.Results {
		if m := &v.Results[i]; !m.Decision.Allowed && !m.Request.Shadow && m.Request.Limit != nil {
			names = append(names, m.Request.Limit.Name())
		}
	}
	if names == nil && v.TightestLimit != nil {
		names = []string{v.TightestLimit.Name()}
	}
	return names
}

// Write sends the problem with its status. Caches must not store it.
func (p *Problem) Write(w http.ResponseWriter) {
	var space [512]byte
	send(w, p.Status, "application/problem+json", p.appendJSON(space[:0]))
}

// appendJSON appends what json.Marshal would, and a line break. A refusal must be cheap, because under
// attack most answers are refusals.
func (p *Problem) appendJSON(dst []byte) []byte {
	dst = appendMember(dst, `{"type":`, p.Type)
	dst = appendMember(dst, `,"title":`, p.Title)
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(p.Status), 10)
	if p.Detail != "" {
		dst = appendMember(dst, `,"detail":`, p.Detail)
	}
	before := `,"violated-policies":[`
	for _, name := range p.ViolatedPolicies {
		dst = appendMember(dst, before, name)
		before = ","
	}
	if len(p.ViolatedPolicies) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, "}\n"...)
}

// appendMember appends what comes before a string, and the string as JSON.
func appendMember(dst []byte, before, s string) []byte {
	dst = append(dst, before...)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // a string is always JSON
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
