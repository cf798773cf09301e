package policy

import (
	"fmt"
	"strings"
)

type segmentKind uint8

const (
	literal  segmentKind = iota
	anyOne               // "*" and "{name}"
	anyDepth             // "**"
)

type segment struct {
	kind segmentKind
	text string // of a literal, clean; of anyOne its name, if it has one
}

// pattern is one of a rule's Paths.
type pattern struct {
	text     string
	segments []segment
}

// everything is the pattern of a rule without Paths.
var everything = pattern{text: "/**", segments: []segment{{kind: anyDepth}}}

// parsePattern reads a pattern; problem says why it is none.
func parsePattern(text string, paths Paths) (p pattern, problem string) {
	p.text = text
	switch {
	case text == "":
		return p, "is empty; give a path such as /api/**"
	case strings.Contains(text, "://"):
		return p, "is a URL; give its path alone, and its host under the hosts"
	case text[0] != '/':
		return p, fmt.Sprintf("does not begin with a slash; write %q", "/"+text)
	case strings.Contains(text, "?"):
		return p, "has a question mark; a pattern is of the path alone, without a query"
	case text == "/":
		return p, ""
	case strings.HasSuffix(text, "/"):
		bare := strings.TrimRight(text, "/")
		return p, fmt.Sprintf("ends with a slash, which is cleaned away; write %q for all below, or %q", bare+"/**", "/"+strings.TrimLeft(bare, "/"))
	}
	deep := false
	for _, part := range strings.Split(text[1:], "/") {
		s, problem := parseSegment(part, paths)
		if problem != "" {
			return p, problem
		}
		switch {
		case s.kind == anyDepth && deep && p.segments[len(p.segments)-1].kind == anyDepth:
			continue // "/**/**" is "/**"
		case s.kind == anyOne && s.text != "" && deep:
			return p, fmt.Sprintf("has {%s} after **, where it has no fixed place; write * there", s.text)
		case s.kind == anyOne && s.text != "" && p.param(s.text) >= 0:
			return p, fmt.Sprintf("has {%s} twice; give the segments different names", s.text)
		}
		deep = deep || s.kind == anyDepth
		p.segments = append(p.segments, s)
	}
	return p, ""
}

func parseSegment(text string, paths Paths) (s segment, problem string) {
	switch {
	case text == "*":
		return segment{kind: anyOne}, ""
	case text == "**":
		return segment{kind: anyDepth}, ""
	case strings.ContainsAny(text, "{}"):
		name, ok := strings.CutPrefix(text, "{")
		name, ok2 := strings.CutSuffix(name, "}")
		if !ok || !ok2 || !isName(name) {
			return s, fmt.Sprintf("has %q; a named segment is a whole one, such as {id}", text)
		}
		return segment{anyOne, name}, ""
	case strings.Contains(text, "*"):
		return s, fmt.Sprintf("has a star within %q; a star stands for a whole segment (* for one, ** for any number), %%2A for itself", text)
	case text == "":
		return s, "has an empty segment, which is cleaned away; write one slash"
	}
	for i := range len(text) {
		if _, ok := unescape(text, i); !ok && text[i] == '%' {
			return s, fmt.Sprintf("has a percent sign that encodes nothing in %q; write %%25 for the sign itself", text)
		}
	}
	clean := paths.Clean("/" + text)[1:]
	if clean == "" || strings.Contains(clean, "/") {
		return s, fmt.Sprintf("has the segment %q, which no clean path has; write the pattern without it", text)
	}
	return segment{literal, clean}, ""
}

// param returns the place of the segment called name, or -1.
func (p *pattern) param(name string) int {
	for i, s := range p.segments {
		if s.kind == anyOne && s.text == name {
			return i
		}
	}
	return -1
}

// cutSegment takes the first segment off a path of the form "/a/b" or "".
func cutSegment(path string) (segment, rest string) {
	path = path[1:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// segmentAt returns the n-th segment of a clean path.
func segmentAt(path string, n int) (string, bool) {
	for path != "" && path != "/" {
		var s string
		s, path = cutSegment(path)
		if n == 0 {
			return s, true
		}
		n--
	}
	return "", false
}

// matchSegments reports whether the segments match the whole of a path of the form "/a/b" or "".
func matchSegments(segments []segment, path string) bool {
	i, star := 0, -1
	var behindStar string // what the last ** has left
	for path != "" {
		if i < len(segments) && segments[i].kind == anyDepth {
			star, behindStar = i, path
			i++
			continue
		}
		text, rest := cutSegment(path)
		if i < len(segments) && (segments[i].kind == anyOne || segments[i].text == text) {
			i, path = i+1, rest
			continue
		}
		if star < 0 {
			return false
		}
		_, behindStar = cutSegment(behindStar)
		i, path = star+1, behindStar
	}
	for i < len(segments) && segments[i].kind == anyDepth {
		i++
	}
	return i == len(segments)
}

// isName reports whether text is a name of a rule, a limit or a segment.
func isName(text string) bool {
	if text == "" || len(text) > maxName {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', i > 0 && (c == '_' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return true
}

const maxName = 100
