package spelling

import (
	"strings"

	"github.com/sluicehq/sluice/internal/faults"
)

// CheckMethod returns what is wrong with the method of a request: see policy.CheckMethod.
func CheckMethod(method string) (f faults.Fault) {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return f
	}
	switch {
	case len(method) > maxMethod:
		return longMethod
	case !IsName(method):
		return badMethod
	case hasLower(method):
		return lowerMethod
	}
	return f
}

// maxMethod bounds a method. No registered method is half as long.
const maxMethod = 64

// Faults of CheckMethod. They do not repeat the method, because clients choose it.
var (
	badMethod   = faults.New("is not a method", "send one such as GET")
	longMethod  = faults.New("is longer than 64 bytes", "send one such as GET")
	lowerMethod = faults.New("has lower-case letters", "send it in upper case, as in POST")
)

func hasLower(s string) bool {
	for i := range len(s) {
		if 'a' <= s[i] && s[i] <= 'z' {
			return true
		}
	}
	return false
}

// OtherMethod is the method, in keys, of all requests whose methods are neither registered nor named by the rule. A
// client that makes methods up has one budget with them.
const OtherMethod = "other"

// Method returns the value that keys have for a method: the method itself if it is
// registered, or else OtherMethod.
func Method(method string) string {
	if isRegistered(method) {
		return method
	}
	return OtherMethod
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

// CheckRuleMethod returns why no request has a method that a rule names, or the zero fault.
func CheckRuleMethod(m string) (f faults.Fault) {
	switch {
	case !IsName(m), len(m) > maxMethod:
		return faults.New("is not a method", "give one such as GET")
	case hasLower(m):
		return faults.New("is not in upper case, as methods are", "write "+strings.ToUpper(m))
	}
	return f
}

// IsName reports whether a text can be the name of a header, a cookie or a method: whether it is a token of HTTP.
func IsName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
