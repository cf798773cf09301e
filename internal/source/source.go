// Package source names where the parts of a key come from, for packages that make rules or describe them.
package source

import "fmt"

// Kind is where a part of a key comes from.
type Kind uint8

// The sources.
const (
	// Constant is the Name of the part itself: the same for all requests.
	Constant Kind = iota + 1
	// ClientIP is the client's address. An IPv4 address mapped to IPv6 counts as the IPv4 address
	// that it contains. Only the prefix of an IPv6 address counts.
	ClientIP
	// Header is the header called Name.
	Header
	// Cookie is the cookie called Name.
	Cookie
	// Query is the query parameter called Name.
	Query
	// Path is the cleaned path.
	Path
	// Param is the segment of the path that the rule's pattern calls {Name}.
	Param
	// Route is the pattern of the rule that the path matched.
	Route
	// Method is the method. All methods that are neither registered nor named by the rule count as one, "other".
	Method
	// Host is the cleaned host.
	Host
	// Claim is the claim called Name of the request's token. The edge must have
	// verified the token: see policy.ClaimValues.
	Claim
	// Attribute is the edge's own value called Name: see policy.AttributeValues.
	Attribute
	// Descriptor is the value of the entry called Name of a descriptor, in rules that match descriptors.
	Descriptor
	// Template makes several parts: the parts in the braces of Name, in their order, as in
	// "{client_ip}/{header:X-Tenant}". The text between the braces does not count, so no value can be
	// mistaken for it. A policy replaces the template by its parts.
	Template
	// Function is what the part's Value returns. The Name is for messages.
	Function
)

var kindNames = [...]string{
	Constant: "constant", ClientIP: "client_ip", Header: "header", Cookie: "cookie", Query: "query",
	Path: "path", Param: "param", Route: "route", Method: "method", Host: "host",
	Claim: "claim", Attribute: "attribute", Descriptor: "descriptor", Template: "template", Function: "function",
}

// String returns the source as policy.ParsePart reads it.
func (s Kind) String() string {
	if s > 0 && int(s) < len(kindNames) {
		return kindNames[s]
	}
	return fmt.Sprintf("Source(%d)", uint8(s))
}

// Named reports whether parts of this source have a name.
func (s Kind) Named() bool {
	switch s {
	case Constant, Header, Cookie, Query, Param, Claim, Attribute, Descriptor, Template, Function:
		return true
	default:
		return false
	}
}

// Repeats reports whether a request can have several values of a part of this source.
func (s Kind) Repeats() bool {
	return s == Header || s == Cookie || s == Query || s == Claim
}

// Value names a value of requests.
type Value struct {
	Source Kind
	Name   string
}

// Parse returns the source that String writes as text. No text gives a function.
func Parse(text string) (Kind, bool) {
	for s := Constant; s < Function; s++ {
		if kindNames[s] == text {
			return s, true
		}
	}
	return 0, false
}
