// Package condition names the conditions of rules, for explanations of why a request does not match a rule.
package condition

// Kind is a kind of condition of a rule. The comments name the fields of policy.Unmet.
type Kind string

// The conditions, in the order in which they are checked.
const (
	// Bypass: the class of the request bypasses all rules. Name is the class.
	Bypass Kind = "bypass"
	// Host, Path and Method: Value is none of OneOf.
	Host   Kind = "host"
	Path   Kind = "path"
	Method Kind = "method"
	// Class: the class of the request, Value, is another one.
	Class Kind = "class"
	// Marked: the request is not marked. Name is the rule that may still mark it, if any.
	Marked Kind = "marked"
	// Unmarked: the request is marked.
	Unmarked Kind = "unmarked"
	// Header, Cookie, Query and Attribute: the value called Name is
	// missing, or Value is none of OneOf and begins with none of Prefixes. If both lists are empty and
	// Value is present, the condition requires that it is absent.
	Header    Kind = "header"
	Cookie    Kind = "cookie"
	Query     Kind = "query"
	Attribute Kind = "attribute"
	// ClientIP: the client's address, Value, is in none of the networks.
	ClientIP Kind = "client_ip"
	// If: a Matcher does not match. Name is its text, if it is a fmt.Stringer.
	If Kind = "if"
	// Pressure: the pressure on the rule Name is less than AtLeast.
	Pressure Kind = "pressure"
	// Unless: an exception matches: number Exception, from 1, of Exceptions.
	Unless Kind = "unless"
	// Descriptor: the rule matches descriptors, and no requests. Name is the domain.
	Descriptor Kind = "descriptor"
	// Key: the request lacks the part Name of the key, and skips the rule.
	Key Kind = "key"
)
