package policy

import (
	"slices"
	"strings"
)

// CheckMethod returns an *AttributeError for a method that is not a token of HTTP, or has lower-case
// letters. Methods are case-sensitive, but some services run "post" as POST, which rules for POST
// do not match. Edges refuse what CheckMethod refuses, before a policy decides.
func CheckMethod(method string) error {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return nil
	}
	switch {
	case len(method) > maxMethod:
		return errLongMethod
	case !isToken(method):
		return errMethod
	case hasLower(method):
		return errLowerMethod
	}
	return nil
}

// maxMethod bounds a method. No registered method is half as long.
const maxMethod = 64

// Errors of CheckMethod. They do not repeat the method, because clients choose it.
var (
	errMethod      = &AttributeError{"method", "is not a method", "send one such as GET"}
	errLongMethod  = &AttributeError{"method", "is longer than 64 bytes", "send one such as GET"}
	errLowerMethod = &AttributeError{"method", "has lower-case letters", "send it in upper case, as in POST"}
)

func hasLower(s string) bool {
	for i := range len(s) {
		if 'a' <= s[i] && s[i] <= 'z' {
			return true
		}
	}
	return false
}

// OtherMethod is the value that FromMethod has for all methods that are neither registered nor
// named by the rule. A client that makes methods up has one budget with them.
const OtherMethod = "other"

// CleanMethod returns the value that keys have for a method: the method itself if it is
// registered, or else OtherMethod.
func CleanMethod(method string) string {
	if isRegistered(method) {
		return method
	}
	return OtherMethod
}

// methodOf returns the value of FromMethod in keys of the rule, which may name methods of its own.
func (r *rule) methodOf(method string) string {
	if method == "" || slices.Contains(r.match.methods, method) {
		return method
	}
	return CleanMethod(method)
}

// isRegistered reports whether a method is in the registry of HTTP methods, or common without being there.
func isRegistered(method string) bool {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "QUERY",
		// WebDAV and its extensions.
		"ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "LABEL", "LINK", "LOCK", "MERGE", "MKACTIVITY",
		"MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE", "ORDERPATCH", "PROPFIND", "PROPPATCH", "REBIND", "REPORT",
		"SEARCH", "UNBIND", "UNCHECKOUT", "UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
		// Caches and UPnP.
		"BAN", "PURGE", "M-SEARCH", "NOTIFY", "SUBSCRIBE", "UNSUBSCRIBE":
		return true
	}
	return false
}

// checkMethod returns why no request has a method that a rule names, if none has.
func checkMethod(m string) (f fault) {
	switch {
	case !isToken(m), len(m) > maxMethod:
		return fault{"is not a method", "give one such as GET"}
	case hasLower(m):
		return fault{"is not in upper case, as methods are", "write " + strings.ToUpper(m)}
	}
	return f
}
