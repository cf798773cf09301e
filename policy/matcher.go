package policy

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
)

// matcher is a Match, checked and ready to match.
type matcher struct {
	patterns []pattern // at least one
	methods  []string
	hosts    []string
	headers  []HeaderMatch
	also     []Matcher
}

func newMatcher(m *Match, paths Paths, report func(field, value, problem string)) *matcher {
	c := &matcher{also: m.If}
	for i, text := range m.Paths {
		p, problem := parsePattern(text, paths)
		if problem != "" {
			report(fmt.Sprintf("Match.Paths[%d]", i), text, problem)
		}
		c.patterns = append(c.patterns, p)
	}
	if len(m.Paths) == 0 {
		c.patterns = []pattern{everything}
	}
	for i, method := range m.Methods {
		if problem := checkMethod(method); problem != "" {
			report(fmt.Sprintf("Match.Methods[%d]", i), method, problem)
		}
		c.methods = append(c.methods, method)
		if method == "GET" {
			c.methods = append(c.methods, "HEAD")
		}
	}
	for i, host := range m.Hosts {
		if problem := checkHost(host); problem != "" {
			report(fmt.Sprintf("Match.Hosts[%d]", i), host, problem)
		}
		c.hosts = append(c.hosts, CleanHost(host))
	}
	for i, h := range m.Headers {
		field := fmt.Sprintf("Match.Headers[%d]", i)
		if problem := checkHeader(h.Name); problem != "" {
			report(field, h.Name, problem)
		}
		if h.Absent && len(h.OneOf)+len(h.Prefixes) > 0 {
			report(field, h.Name, "is to be absent and to have a value; give one of them")
		}
		h.Name = textproto.CanonicalMIMEHeaderKey(h.Name)
		c.headers = append(c.headers, h)
	}
	for i, m := range m.If {
		if m == nil {
			report(fmt.Sprintf("Match.If[%d]", i), "", "is nil")
		}
	}
	return c
}

// matches checks what the index has not.
func (m *matcher) matches(a *Attributes) bool {
	if len(m.methods) > 0 && !slices.Contains(m.methods, a.Method) {
		return false
	}
	for i := range m.headers {
		if !m.headers[i].matches(a) {
			return false
		}
	}
	for _, c := range m.also {
		if !c.Matches(a) {
			return false
		}
	}
	return true
}

func (h *HeaderMatch) matches(a *Attributes) bool {
	v, ok := a.header(h.Name)
	if !ok || h.Absent {
		return ok != h.Absent
	}
	if len(h.OneOf)+len(h.Prefixes) == 0 || slices.Contains(h.OneOf, v) {
		return true
	}
	return slices.ContainsFunc(h.Prefixes, func(p string) bool { return strings.HasPrefix(v, p) })
}

// checkMethod reports why no request has such a method, or "".
func checkMethod(m string) string {
	switch {
	case !isToken(m):
		return "is no method; give one such as GET"
	case slices.Contains(knownMethods, strings.ToUpper(m)) && m != strings.ToUpper(m):
		return fmt.Sprintf("is not in upper case, as methods are; write %s", strings.ToUpper(m))
	}
	return ""
}

var knownMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}

// checkHeader reports why no request has such a header, or "".
func checkHeader(name string) string {
	switch {
	case !isToken(name):
		return "is no name of a header; give one such as X-User"
	case strings.EqualFold(name, "Host"):
		return "is no header to rules; it is the host"
	}
	return ""
}

// isToken reports whether s is a token of HTTP.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
