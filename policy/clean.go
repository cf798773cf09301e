package policy

import (
	"github.com/sluicehq/sluice/internal/faults"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy/internal/paths"
)

// Paths sets how paths are cleaned before they are matched and used in keys. All spellings by which a
// service finds the same handler become one path. The zero Paths fits most services.
//
// Services resolve dots in different ways. For some services "/api/%2e%2e/x" is "/x"; for others, such
// as net/http's ServeMux, it lies below /api. Such a path has several variants, in which unresolved
// dots are "%2E" and "%2E%2E". For services that do not merge slashes, "/api//x" has a variant with its empty
// segment: exceptions of rules and classes match it as it is, patterns and keys of rules without the segment. A
// request is decided by all variants of its path. A rule applies if it matches one variant, once for each key
// that the variants have. The request bypasses the rules, or escapes a default of Deny, only if all variants do.
// See docs/adr/0018.
type Paths struct {
	// IgnoreCase turns ASCII letters into lower case, for services that route without regard to case.
	IgnoreCase bool
	// EncodedSlash says what "%2F" is. Default: SlashAny, for which a path with "%2F" has several variants.
	EncodedSlash EncodedSlash
	// StripParams removes what follows a semicolon in each segment, as Java's
	// servlet containers do.
	StripParams bool
}

// EncodedSlash says what "%2F" in a path is to the service.
type EncodedSlash uint8

const (
	// SlashAny is for all services. A path has a variant in which "%2F" is part of its segment, and a
	// variant in which it is a slash; the same for the backslash "%5C"; and the same for a path that
	// is decoded twice. See docs/adr/0023.
	SlashAny EncodedSlash = iota
	// SlashKeep is for services that split a path before they decode it, such as net/http's
	// ServeMux and Express: "%2F" is part of its segment.
	SlashKeep
	// SlashDecode is for services that decode a path before they split it, such as nginx, Flask and
	// hypercorn: "%2F" is a slash.
	SlashDecode
)

// form returns the settings as package paths has them.
func (o Paths) form() paths.Form {
	return paths.Form{IgnoreCase: o.IgnoreCase, StripParams: o.StripParams, Slash: paths.Slash(o.EncodedSlash)}
}

// Clean returns the canonical spelling of an escaped path. It
//
//   - begins the path with a slash,
//   - decodes the bytes that need no percent-encoding in a segment ("%61" is "a",
//     "%2e" is "."), and encodes all other bytes, in upper case ("%c3" is "%C3", a
//     space is "%20", a stray "%" is "%25"); it decodes nothing twice,
//   - then removes empty segments ("//") and segments of one dot; a segment of two
//     dots removes the segment before it, never beyond the root,
//   - and removes the trailing slash: "/login/" is "/login". If a service has two
//     handlers there, both have one path.
//
// "%2F" is a slash only with SlashDecode. A path that is clean is returned as it is, without
// allocation: Clean(Clean(p)) is Clean(p).
func (o Paths) Clean(escaped string) string { return o.form().Clean(escaped) }

// CheckHost returns an *AttributeError for a host that is not a name, an IPv4 address or an IPv6 address
// in brackets, each with or without a port. Services read different names in such a host: in
// "api.example.com:80:80" some read "api.example.com". An empty host is accepted, for requests
// without one. Edges refuse what CheckHost refuses, before a policy decides.
func CheckHost(host string) error { return refuse("host", spelling.CheckHost(host)) }

// CheckMethod returns an *AttributeError for a method that is not a token of HTTP, or has lower-case
// letters. Methods are case-sensitive, but some services run "post" as POST, which rules for POST
// do not match. Edges refuse what CheckMethod refuses, before a policy decides.
func CheckMethod(method string) error { return refuse("method", spelling.CheckMethod(method)) }

// CheckPath returns an *AttributeError for an escaped path with a control character, such as "%00", also
// encoded several times. Policies refuse such a path themselves; it is for edges that use a path only in keys.
func CheckPath(escaped string) error {
	if (paths.Form{}).HasControl(escaped) {
		return refuse("path", paths.Control)
	}
	return nil
}

// AttributeError reports a request with which services disagree about what it is for. Edges refuse
// it with status 400.
type AttributeError struct {
	// Attribute is what is wrong: "method" or "host".
	Attribute string
	// Problem says what is wrong with it.
	Problem string
	// Remedy says what would be right.
	Remedy string
}

func (e *AttributeError) Error() string {
	return "policy: the " + e.Attribute + " " + faults.New(e.Problem, e.Remedy).String()
}

// refuse returns the error of a request with a faulty attribute, nil for the zero fault.
func refuse(attribute string, f faults.Fault) error {
	if f == (faults.Fault{}) {
		return nil
	}
	return &AttributeError{attribute, f.Problem, f.Remedy}
}
