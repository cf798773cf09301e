package policy

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
)

// Action is what becomes of a request, the graver ones last.
type Action uint8

// The actions.
const (
	// Allow lets the request pass, after the verdict's Delay.
	Allow Action = iota
	// Mark lets it pass with a mark: a header for the service behind, and for rules that match marked
	// requests, which are refused first when there is too much traffic.
	Mark
	// Degrade answers it with less: from a fallback, or with a header for the service behind,
	// which can do less then.
	Degrade
	// Deny refuses it.
	Deny
)

var actionNames = [...]string{Allow: "allow", Mark: "mark", Degrade: "degrade", Deny: "deny"}

// String returns the action in a word.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return "unknown"
}

// advisory reports whether a rule with this action lets all requests pass.
func (a Action) advisory() bool { return a == Mark || a == Degrade }

// LimitedAction is what happens to a request that a rule does not let pass as it is, for an
// edge to carry out. The zero LimitedAction refuses it and leaves the answer to the
// edge: over HTTP, status 429 and a problem document.
//
// Body and Header may hold {wait}, the seconds after which to come back, rounded up, and {rule},
// the name of the rule; edges fill them in.
type LimitedAction struct {
	// Action is Deny, Degrade or Mark. Zero means Deny. A rule that degrades or
	// marks never refuses a request, whatever its limits say; what it took of one that another rule
	// refuses is given back.
	Action Action
	// Status is an HTTP status: from 400 to 599 to deny, 429 by default; from 200 to 599 to
	// degrade by an answer, 200 by default.
	Status int
	// Header holds headers of the answer.
	Header map[string]string
	// ContentType is that of Body. Default: "text/plain; charset=utf-8" if there is a Body.
	ContentType string
	// Body is the answer's. Default: the edge's own.
	Body string
	// File names a file that is the answer's body instead of Body. The edge opens it.
	File string
	// Upstream is where a degraded request goes instead: what an edge calls a
	// fallback, such as a URL. Then there is no answer of its own.
	Upstream string
	// RequestHeader holds headers to set on the request that is passed on, degraded or marked.
	// Edges remove them from what clients send, see Policy.RequestHeaders. Default, of a
	// request that is marked, or degraded without an answer and an Upstream: MarkedHeader or
	// DegradedHeader with the name of the rule.
	RequestHeader map[string]string
}

// The headers that show the service behind what became of a request, unless
// LimitedAction.RequestHeader names others.
const (
	MarkedHeader   = "Sluice-Marked"
	DegradedHeader = "Sluice-Degraded"
)

// Answers reports whether a degraded request gets an answer at once, and is not passed on.
func (r *LimitedAction) Answers() bool {
	return r.Upstream == "" && (r.Status != 0 || r.Body != "" || r.File != "")
}

// check reports what is wrong with a response, and fills in its defaults for a
// rule of this name.
func (r *LimitedAction) check(rule string, report func(field, value string, f fault)) {
	if r.Action == Allow {
		r.Action = Deny
	}
	least, what := 400, "a refusal"
	switch r.Action {
	case Deny:
		r.checkUnused(report, "refuses", r.Upstream != "", len(r.RequestHeader) > 0)
	case Degrade:
		least, what = 200, "an answer"
		if r.Upstream != "" && (r.Status != 0 || r.Body != "" || r.File != "" || len(r.Header) > 0) {
			report("WhenLimited.Upstream", r.Upstream, fault{"is given, and an answer too", "give one of them"})
		}
	case Mark:
		if r.Status != 0 || r.Body != "" || r.File != "" || r.ContentType != "" || len(r.Header) > 0 {
			report("WhenLimited.Action", r.Action.String(), fault{"passes the request on, and an answer is given too", "leave out one of them"})
		}
		r.checkUnused(report, "marks", r.Upstream != "", false)
	default:
		report("WhenLimited.Action", "", fault{"is unknown", "give Deny, Degrade or Mark"})
	}
	if r.Status != 0 && (r.Status < least || r.Status > 599) {
		report("WhenLimited.Status", "", is(r.Status, fmt.Sprintf("%s has %d to 599", what, least)))
	}
	if r.Body != "" && r.File != "" {
		report("WhenLimited.File", r.File, fault{"is given, and a body too", "give one of them"})
	}
	checkHeaders("WhenLimited.Header", r.Header, report)
	checkHeaders("WhenLimited.RequestHeader", r.RequestHeader, report)
	if strings.ContainsAny(r.ContentType, "\r\n\x00") {
		report("WhenLimited.ContentType", r.ContentType, fault{"has a line break in it", "remove it"})
	}
	if len(r.RequestHeader) > 0 {
		return
	}
	switch {
	case r.Action == Mark:
		r.RequestHeader = map[string]string{MarkedHeader: rule}
	case r.Action == Degrade && r.Upstream == "" && !r.Answers():
		r.RequestHeader = map[string]string{DegradedHeader: rule}
	}
}

func (r *LimitedAction) checkUnused(report func(field, value string, f fault), verb string, upstream, header bool) {
	if upstream {
		report("WhenLimited.Upstream", r.Upstream, fault{fmt.Sprintf("is for requests that are degraded, and the rule %s them", verb), "leave it out, or degrade"})
	}
	if header {
		report("WhenLimited.RequestHeader", "", fault{fmt.Sprintf("is for requests that are passed on, and the rule %s them", verb), "leave it out, or degrade or mark"})
	}
}

// framing are the headers that say where a message ends and what its connection is for.
var framing = []string{"Connection", "Content-Length", "Host", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func checkHeaders(field string, headers map[string]string, report func(field, value string, f fault)) {
	for name, value := range headers {
		at := fmt.Sprintf("%s[%s]", field, name)
		switch {
		case !isToken(name):
			report(at, name, fault{"is not a name of a header", "give one such as X-Reason"})
		case slices.Contains(framing, textproto.CanonicalMIMEHeaderKey(name)):
			report(at, name, fault{"is a header that the server writes itself", "leave it out"})
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			report(at, name, fault{"has a line break in its value", "remove it"})
		}
	}
}

// RequestHeaders returns the headers that rules of the policy set on requests that are passed
// on, in canonical form. Edges remove them from what clients send, who would
// otherwise say themselves what became of their requests.
func (p *Policy) RequestHeaders() []string { return p.requestHeaders }

// ReservedHeaders returns the RequestHeaders, and MarkedHeader and DegradedHeader, which rules set by
// default, in canonical form and sorted. The caller must not change them.
func (p *Policy) ReservedHeaders() []string { return p.reserved }

// MarkHeaders returns the headers in which a request can be marked, in canonical form: MarkedHeader,
// and the headers that rules with the action Mark set instead.
func (p *Policy) MarkHeaders() []string { return p.markHeaders }

// collectHeaders adds the headers that a response sets on requests.
func collectHeaders(set map[string]bool, r *LimitedAction) {
	for name := range r.RequestHeader {
		set[textproto.CanonicalMIMEHeaderKey(name)] = true
	}
}
