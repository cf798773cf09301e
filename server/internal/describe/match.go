package describe

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/sluicehq/sluice/policy"
)

// Match describes which requests a match is for, as in "GET or POST requests to /api and all below it".
func Match(m *policy.Match) string {
	if m.Descriptor != nil {
		return descriptor(m.Descriptor)
	}
	var b strings.Builder
	if len(m.Methods) > 0 {
		b.WriteString(or(m.Methods) + " ")
	}
	b.WriteString("requests")
	if len(m.Paths) > 0 {
		var paths []string
		for _, p := range m.Paths {
			paths = append(paths, path(p))
		}
		b.WriteString(" to " + or(paths))
	}
	if len(m.Hosts) > 0 {
		b.WriteString(" of " + or(m.Hosts))
	}
	var also []string
	for _, kind := range []struct {
		noun       string
		conditions []policy.ValueMatch
	}{{"header", m.Headers}, {"cookie", m.Cookies}, {"parameter", m.Queries}, {"attribute", m.Attributes}} {
		for i := range kind.conditions {
			also = append(also, value(kind.noun, &kind.conditions[i]))
		}
	}
	if len(m.ClientIPs) > 0 {
		also = append(also, "from "+networks(m.ClientIPs))
	}
	if len(m.Classes) > 0 {
		also = append(also, "of class "+or(m.Classes))
	}
	if m.Marked != nil && *m.Marked {
		also = append(also, "marked")
	} else if m.Marked != nil {
		also = append(also, "not marked")
	}
	if m.PressureOf != "" {
		also = append(also, fmt.Sprintf("while the pressure on rule %s is %v or more", m.PressureOf, m.Pressure))
	}
	for _, c := range m.If {
		if named, ok := c.(fmt.Stringer); ok {
			also = append(also, "if "+named.String())
		} else {
			also = append(also, "if a condition of the program is true")
		}
	}
	for _, text := range also {
		b.WriteString(", " + text)
	}
	for i := range m.Unless {
		b.WriteString("; but not " + Match(&m.Unless[i]))
	}
	if b.String() == "requests" {
		return "every request"
	}
	if text, ok := strings.CutPrefix(b.String(), "requests, "); ok {
		return "requests " + text
	}
	if text, ok := strings.CutPrefix(b.String(), "requests; but not "); ok {
		return "every request but " + text
	}
	return b.String()
}

// path describes a pattern.
func path(pattern string) string {
	if pattern == "/**" {
		return "any path"
	}
	if root, ok := strings.CutSuffix(pattern, "/**"); ok && !strings.Contains(root, "*") {
		return root + " and all below it"
	}
	return pattern
}

func value(noun string, v *policy.ValueMatch) string {
	texts := quotedValues(v.OneOf, v.Prefixes)
	switch {
	case v.Absent:
		return fmt.Sprintf("without %s %s", noun, v.Name)
	case len(texts) == 0:
		return fmt.Sprintf("with %s %s", noun, v.Name)
	}
	return fmt.Sprintf("with %s %s of %s", noun, v.Name, or(texts))
}

// mostListed bounds how many entries of a long list are named.
const mostListed = 5

func networks(all []netip.Prefix) string {
	if len(all) > mostListed {
		return fmt.Sprintf("%d networks", len(all))
	}
	var texts []string
	for _, p := range all {
		if p.IsSingleIP() {
			texts = append(texts, p.Addr().String())
		} else {
			texts = append(texts, p.String())
		}
	}
	return or(texts)
}

// or lists alternatives.
func or(texts []string) string { return join(texts, " or ") }

func join(texts []string, last string) string {
	n := len(texts)
	switch {
	case n == 0:
		return ""
	case n == 1:
		return texts[0]
	case n > 2*mostListed:
		return fmt.Sprintf("%s%sone of %d more", strings.Join(texts[:mostListed], ", "), last, n-mostListed)
	}
	return strings.Join(texts[:n-1], ", ") + last + texts[n-1]
}

func quoted(text string) string { return fmt.Sprintf("%q", text) }

// quotedValues quotes whole values, and prefixes with an ellipsis.
func quotedValues(oneOf, prefixes []string) []string {
	var texts []string
	for _, text := range oneOf {
		texts = append(texts, quoted(text))
	}
	for _, text := range prefixes {
		texts = append(texts, quoted(text)+"…")
	}
	return texts
}
