package httplimit

import (
	"net/netip"
	"strings"
)

const (
	// longestElement bounds one element of a list of proxies.
	longestElement = 512
	// mostEmpty bounds how many empty elements of a list are skipped.
	mostEmpty = 16
)

// chain reads the list of a header from its end. The header may have several lines. The last element is
// from the nearest proxy. Elements from clients come before the elements of proxies, and are read only
// if all proxies after them are trusted. So nothing in them, such as a quote that is not closed, can
// spoil the elements of the proxies.
type chain struct {
	// lines are the lines that are not begun yet.
	lines []string
	// rest is the rest of the line that was begun.
	rest  string
	begun bool
	// quoted says that commas in quotes do not separate.
	quoted bool
	empty  int
}

// last takes the last element off the list. An element that is too long comes with everything
// before it in its line, and is not an address.
func (c *chain) last() (string, bool) {
	for {
		if !c.begun {
			if len(c.lines) == 0 {
				return "", false
			}
			n := len(c.lines) - 1
			c.rest, c.lines, c.begun = c.lines[n], c.lines[:n], true
		}
		comma := c.comma()
		element := strings.Trim(c.rest[comma+1:], " \t")
		if comma < 0 {
			c.begun = false
		} else {
			c.rest = c.rest[:comma]
		}
		if element != "" {
			return element, true
		}
		if c.empty++; c.empty > mostEmpty {
			return ",", true
		}
	}
}

// comma returns where the comma before the last element of the rest is, or -1.
func (c *chain) comma() int {
	least := max(0, len(c.rest)-longestElement)
	if !c.quoted {
		if i := strings.LastIndexByte(c.rest[least:], ','); i >= 0 {
			return least + i
		}
		return -1
	}
	inside := false
	for i := len(c.rest) - 1; i >= least; i-- {
		switch c.rest[i] {
		case '"':
			if !escaped(c.rest[least:i]) {
				inside = !inside
			}
		case ',':
			if !inside {
				return i
			}
		}
	}
	return -1
}

// escaped reports whether the character after s is escaped by a backslash.
func escaped(s string) bool {
	n := 0
	for n < len(s) && s[len(s)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// unquoteNode removes the quotes that some proxies write around addresses in
// X-Forwarded-For.
func unquoteNode(s string) string {
	if len(s) > 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

// forwardedFor returns the node of the "for" parameter of an element of Forwarded. It fails if there is
// not exactly one, or if any part of the element is malformed.
func forwardedFor(element string) (node string, ok bool) {
	if len(element) > longestElement {
		return "", false
	}
	found := false
	for rest := element; ; {
		name, after, ok := strings.Cut(rest, "=")
		if name = strings.Trim(name, " \t"); !ok || !isToken(name) {
			return "", false
		}
		value, after, ok := pairValue(after)
		if !ok {
			return "", false
		}
		if strings.EqualFold(name, "for") {
			if found {
				return "", false
			}
			node, found = value, true
		}
		after = strings.TrimLeft(after, " \t")
		if after == "" {
			return node, found
		}
		if after[0] != ';' {
			return "", false
		}
		rest = strings.TrimLeft(after[1:], " \t")
		if rest == "" {
			return node, found
		}
	}
}

// pairValue splits a value, a token or quoted string, from what comes after it.
func pairValue(s string) (value, after string, ok bool) {
	if s == "" || s[0] != '"' {
		end := strings.IndexAny(s, "; \t\"")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], end > 0
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			if value = s[1:i]; strings.IndexByte(value, '\\') >= 0 {
				value = unescape(value)
			}
			return value, s[i+1:], true
		}
	}
	return "", "", false
}

// unescape removes the backslashes of a quoted string.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// isToken reports whether s is a token of RFC 9110.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isObfuscated(c) && strings.IndexByte("!#$%&'*+^`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// longestNode bounds the text of one address with its brackets, zone and port.
const longestNode = 128

// parseNode reads an address, which may have a port, and brackets if it is an IPv6 address. The result
// has no zone and is not mapped; it is invalid if the text is not an address. The returned text is the
// part of s with an IPv4 address, which has only one spelling; otherwise it is empty.
func parseNode(s string) (netip.Addr, string) {
	if s == "" || len(s) > longestNode {
		return netip.Addr{}, ""
	}
	host := s
	if s[0] == '[' {
		end := strings.IndexByte(s, ']')
		if end < 0 || end+1 < len(s) && !isPort(s[end+1:]) {
			return netip.Addr{}, ""
		}
		host = s[1:end]
		if strings.IndexByte(host, ':') < 0 {
			return netip.Addr{}, ""
		}
	} else if colon := strings.IndexByte(s, ':'); colon >= 0 && strings.IndexByte(s[colon+1:], ':') < 0 {
		// One colon: IPv4 and a port. Several: IPv6 without a port.
		if !isPort(s[colon:]) {
			return netip.Addr{}, ""
		}
		host = s[:colon]
	}
	a, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return netip.Addr{}, ""
	case a.Is4():
		return a, host
	}
	return a.Unmap().WithZone(""), ""
}

// isPort reports whether s is a colon and a port, which may be obfuscated as in RFC 7239.
func isPort(s string) bool {
	if len(s) < 2 || s[0] != ':' {
		return false
	}
	if s[1] == '_' {
		for i := 2; i < len(s); i++ {
			if !isObfuscated(s[i]) {
				return false
			}
		}
		return len(s) > 2
	}
	port := 0
	for i := 1; i < len(s); i++ {
		digit := int(s[i]) - '0'
		if digit < 0 || digit > 9 {
			return false
		}
		if port = port*10 + digit; port > 0xFFFF {
			return false
		}
	}
	return true
}

func isObfuscated(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}
