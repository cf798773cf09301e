package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/source"
)

// Source is where a part of a key comes from. The functions that make parts choose it.
type Source = source.Kind

// The sources of values that a request can have several times: see RepeatableValues.
const (
	// FromHeader is the header of a name.
	FromHeader = source.Header
	// FromCookie is the cookie of a name.
	FromCookie = source.Cookie
	// FromQuery is the query parameter of a name.
	FromQuery = source.Query
	// FromClaim is the claim of a name in the request's token. The edge must have verified the token: see ClaimValues.
	FromClaim = source.Claim
)

// Missing is what happens to a request that lacks a part of a rule's key. An empty header, cookie or
// parameter is missing too.
type Missing uint8

const (
	// MissingShared gives all requests that lack the part one budget, which no value of the part
	// shares. A client that leaves the part out does not escape the limit. It is the default.
	MissingShared Missing = iota
	// MissingSkip skips the rule, as if it did not match. Clients that choose whether to send the part
	// choose whether the rule applies to them.
	MissingSkip
	// MissingDeny refuses the request.
	MissingDeny
)

var missingNames = [...]string{MissingShared: "share", MissingSkip: "skip", MissingDeny: "deny"}

// String returns the choice in a word.
func (m Missing) String() string {
	if int(m) < len(missingNames) {
		return missingNames[m]
	}
	return fmt.Sprintf("Missing(%d)", uint8(m))
}

// OnceRemedy says how a request gives a part once, and so that all services read the same. It is for requests that are
// denied with the reason repeated key.
func (p *Part) OnceRemedy() string {
	switch p.Source {
	case FromClaim:
		return "send one Authorization header, with Bearer and one token of three parts in base64url, without = or spaces"
	case FromHeader:
		return "send the header once, in printable ASCII"
	}
	return "send it once, without characters that some services read differently"
}

// Part is one part of a key. Make it with ClientIP, Header and so on, or read it with ParsePart. Keys
// are injective: two requests have the same key only if all parts are the same, whatever bytes they
// hold. No value is equal to a missing part. A Part is a value, safe for concurrent use.
type Part struct {
	// Source is where the value comes from.
	Source Source
	// Name is the name of the header, cookie, parameter, segment, claim, attribute or function; or
	// the constant; or the template.
	Name string
	// IPv6Prefix is how many bits of an IPv6 client address count, 1 to 128. Zero means
	// Options.IPv6Prefix.
	IPv6Prefix int
	// OnMissing is what happens to a request without this part.
	OnMissing Missing
	// OnRepeated is the choice for requests with the part several times, or in a spelling that not all
	// services read. Default: RepeatedDeny.
	OnRepeated Repeated
	// Value finds the value, instead of the Source. ok is false for a request that lacks the part. It
	// must be safe for concurrent use. It must clean a path with Paths.Clean, because a.Path may be
	// clean or not. If Value is nil, the Source finds the value; source.Function needs a Value.
	Value func(a *Attributes) (value string, ok bool)
}

// ClientIP is the client's address.
func ClientIP() Part { return Part{Source: source.ClientIP} }

// Header is the value of a header.
func Header(name string) Part { return Part{Source: FromHeader, Name: name} }

// Cookie is the value of a cookie.
func Cookie(name string) Part { return Part{Source: FromCookie, Name: name} }

// Query is the value of a query parameter.
func Query(name string) Part { return Part{Source: FromQuery, Name: name} }

// Path is the cleaned path.
func Path() Part { return Part{Source: source.Path} }

// Param is the segment that all patterns of the rule call {name}.
func Param(name string) Part { return Part{Source: source.Param, Name: name} }

// Route is the pattern of the rule that the path matched.
func Route() Part { return Part{Source: source.Route} }

// Method is the method.
func Method() Part { return Part{Source: source.Method} }

// Host is the cleaned host.
func Host() Part { return Part{Source: source.Host} }

// Claim is a claim of the request's token. The token must have been verified: see ClaimValues.
func Claim(name string) Part { return Part{Source: FromClaim, Name: name} }

// Attribute is a value of the edge's own: see AttributeValues.
func Attribute(name string) Part { return Part{Source: source.Attribute, Name: name} }

// Template is several parts, each in braces: "{client_ip}/{header:X-Tenant}". Its IPv6Prefix,
// OnMissing and OnRepeated apply to all of them that take one.
func Template(text string) Part { return Part{Source: source.Template, Name: text} }

// Function is a value that a function finds in a request. The name is for messages.
func Function(name string, value func(a *Attributes) (string, bool)) Part {
	return Part{Source: source.Function, Name: name, Value: value}
}

// Constant is the same for all requests.
func Constant(text string) Part { return Part{Source: source.Constant, Name: text} }

// Global is the constant "global": one budget for everybody.
func Global() Part { return Constant("global") }

// IfMissing returns the part with another choice for requests that lack it.
func (p Part) IfMissing(m Missing) Part {
	p.OnMissing = m
	return p
}

// IfRepeated returns the part with another choice for requests with several values of it.
func (p Part) IfRepeated(r Repeated) Part {
	p.OnRepeated = r
	return p
}

// String returns the part as ParsePart reads it, without IPv6Prefix and OnMissing.
func (p Part) String() string {
	switch {
	case p.Source == source.Constant && p.Name == "global":
		return "global"
	case p.Source.Named():
		return p.Source.String() + ":" + p.Name
	}
	return p.Source.String()
}

// ParsePart reads a part: client_ip, path, route, method, host or global, or one with a name:
// header:X-User, cookie:session, query:q, param:id, claim:sub, attribute:name, descriptor:key,
// constant:text, or template:{client_ip}/{header:X-Tenant}.
// The error shows the forms.
func ParsePart(text string) (Part, error) {
	word, name, hasName := strings.Cut(text, ":")
	if word == "global" && !hasName {
		return Global(), nil
	}
	s, ok := source.Parse(word)
	switch {
	case ok && s.Named() && name == "":
		return Part{}, fmt.Errorf("policy: part %q needs a name, as in %s", text, examplePart[s])
	case ok && !s.Named() && hasName:
		return Part{}, fmt.Errorf("policy: part %q takes no name; write %s", text, word)
	case ok:
		return Part{Source: s, Name: name}, nil
	}
	return Part{}, fmt.Errorf("policy: part %q is unknown; give client_ip, header:NAME, cookie:NAME, query:NAME, path, param:NAME, route, method, host, claim:NAME, attribute:NAME, descriptor:KEY, global, constant:TEXT or template:TEXT", text)
}

var examplePart = map[Source]string{
	source.Constant: "constant:eu", FromHeader: "header:X-User", FromCookie: "cookie:session", FromQuery: "query:user", source.Param: "param:id",
	FromClaim: "claim:sub", source.Attribute: "attribute:tenant", source.Descriptor: "descriptor:user", source.Template: "template:{client_ip}/{header:X-Tenant}",
}

// expand returns the parts in the braces of a template, with the template's
// IPv6Prefix and OnMissing, or what is wrong with the template.
func (p *Part) expand() (parts []Part, f fault) {
	rest := p.Name
	for {
		text, behind, found := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return nil, fault{"has a closing brace that opens nowhere", "write parts as in {client_ip}"}
		}
		if !found {
			break
		}
		inner, behind, closed := strings.Cut(behind, "}")
		if !closed || strings.Contains(inner, "{") {
			return nil, fault{"has a brace that is not closed", "write parts as in {client_ip}"}
		}
		part, err := ParsePart(inner)
		switch {
		case err != nil:
			return nil, fault{fmt.Sprintf("has {%s}, which is not a part of a key", inner), "write one as in {client_ip} or {header:X-Tenant}"}
		case part.Source == source.Template:
			return nil, fault{fmt.Sprintf("has the template {%s} in it", inner), "write its parts there"}
		}
		if part.Source == source.ClientIP {
			part.IPv6Prefix = p.IPv6Prefix
		}
		if part.OnMissing = p.OnMissing; part.Source.Repeats() {
			part.OnRepeated = p.OnRepeated
		}
		parts = append(parts, part)
		rest = behind
	}
	if len(parts) == 0 {
		return nil, fault{"has no part in braces, such as {client_ip}", "for the same text for all requests, give a constant"}
	}
	return parts, f
}

// OfClient reports whether a part distinguishes clients. The other parts are the same for all clients that
// request the same thing.
func (p *Part) OfClient() bool {
	switch p.Source {
	case source.Constant, source.Path, source.Param, source.Route, source.Method, source.Host:
		return false
	}
	return true
}

// Chosen reports whether any client can send the value of another one, because its name does not say that it is a
// secret: a parameter of the query, or a header without credentials. A ban on such parts only hits a client or a
// resource that somebody else has named. Cookies, claims and the caller's own values are not chosen.
func (p Part) Chosen() bool {
	if p.Source != FromQuery && p.Source != FromHeader {
		return false
	}
	name := strings.ToLower(p.Name)
	return !slices.ContainsFunc(secretNames[:], func(word string) bool { return strings.Contains(name, word) })
}

// secretNames are words in the names of values that are secrets of their clients.
var secretNames = [...]string{"auth", "key", "token", "secret", "session", "cookie", "signature", "password", "jwt", "sid", "credential"}

// Repeated is the choice for requests with a part of a rule's key several times, such as a header on
// two lines or ?k=a&k=b, or in a spelling that not all services read. Services disagree on the value:
// some read the first, some the last, and some all of them.
type Repeated uint8

const (
	// RepeatedDeny refuses the request. The default.
	RepeatedDeny Repeated = iota
	// RepeatedFirst counts by the first value. It is for services that read the first value.
	RepeatedFirst
	// RepeatedLast counts by the last value. It is for services that read the last value.
	RepeatedLast
	// RepeatedShared counts all such requests in the budget of requests without the part, also if OnMissing
	// is another choice than MissingShared.
	RepeatedShared
)

var repeatedNames = [...]string{RepeatedDeny: "deny", RepeatedFirst: "first", RepeatedLast: "last", RepeatedShared: "share"}

// String returns the choice in a word.
func (r Repeated) String() string {
	if int(r) < len(repeatedNames) {
		return repeatedNames[r]
	}
	return fmt.Sprintf("Repeated(%d)", uint8(r))
}
