package policy

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/internal/spelling"
)

// Action is what happens to a request. The constants go from the mildest to the gravest.
type Action uint8

// The actions.
const (
	// Allow lets the request pass, after the verdict's Delay.
	Allow Action = iota
	// Mark lets the request pass with a mark: a header for the service behind, and a condition for
	// rules. With such rules, marked requests can be refused first when there is too much traffic.
	Mark
	// Degrade serves the request with less. The request gets a prepared answer, or goes to another
	// upstream, or passes with a header, so that the service behind can do less.
	Degrade
	// Deny refuses the request.
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

// LimitedAction is what happens to a request that the limits of a rule do not let pass. An edge carries
// it out. The zero LimitedAction refuses the request and leaves the answer to the edge: over HTTP,
// status 429 and a problem document.
//
// Body and Header may contain {wait} and {rule}, which edges fill in. {wait} is the seconds after which
// to come back, rounded up; {rule} is the name of the rule.
type LimitedAction struct {
	// Action is Deny, Degrade or Mark. Zero means Deny. A rule that degrades or marks never refuses a
	// request, whatever its limits decide. If another rule refuses the request, the charges of this
	// rule are given back.
	Action Action
	// Status is an HTTP status. To deny, it is from 400 to 599, by default 429. To degrade by an
	// answer, it is from 200 to 599, by default 200.
	Status int
	// Header holds headers of the answer.
	Header map[string]string
	// ContentType is the type of the body. Default: "text/plain; charset=utf-8" for a Body; for a File,
	// the edge finds the type.
	ContentType string
	// Body is the body of the answer. Default: the edge's own body.
	Body string
	// File names a file that holds the body of the answer, instead of Body. The edge opens it.
	File string
	// Upstream is where a degraded request goes instead. The edge defines its form, such as a URL. A
	// rule with an Upstream has no answer of its own.
	Upstream string
	// RequestHeader holds headers to set on a degraded or marked request that is passed on. Edges
	// remove them from the requests of clients: see Policy.RequestHeaders. Default for Mark:
	// Sluice-Marked with the name of the rule. Default for Degrade without an answer and an Upstream:
	// Sluice-Degraded with the name of the rule.
	RequestHeader map[string]string
}

// Answers reports whether a degraded request gets an answer at once, and is not passed on.
func (r *LimitedAction) Answers() bool {
	return r.Upstream == "" && (r.Status != 0 || r.Body != "" || r.File != "")
}

// check reports what is wrong with a limited action, and fills in its defaults for a rule of this name.
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
		r.RequestHeader = map[string]string{removal.Marked: rule}
	case r.Action == Degrade && r.Upstream == "" && !r.Answers():
		r.RequestHeader = map[string]string{removal.Degraded: rule}
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

// framing are the headers that define where a message ends and how its connection is used.
var framing = []string{"Connection", "Content-Length", "Host", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func checkHeaders(field string, headers map[string]string, report func(field, value string, f fault)) {
	for name, value := range headers {
		at := fmt.Sprintf("%s[%s]", field, name)
		switch {
		case !spelling.IsName(name):
			report(at, name, fault{"is not a name of a header", "give one such as X-Reason"})
		case slices.Contains(framing, textproto.CanonicalMIMEHeaderKey(name)):
			report(at, name, fault{"is a header that the server writes itself", "leave it out"})
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			report(at, name, fault{"has a line break in its value", "remove it"})
		}
	}
}

// collectHeaders adds the headers that a limited action sets on requests.
func collectHeaders(set map[string]bool, r *LimitedAction) {
	for name := range r.RequestHeader {
		set[textproto.CanonicalMIMEHeaderKey(name)] = true
	}
}
