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

// parsePattern reads a pattern, or returns why the text is not a pattern.
func parsePattern(text string, paths Paths) (p pattern, f fault) {
	p.text = text
	switch {
	case text == "":
		return p, fault{"is empty", "give a path such as /api/**"}
	case strings.Contains(text, "://"):
		return p, fault{"is a URL", "give its path only, and put its host under the hosts"}
	case text[0] != '/':
		return p, fault{"does not begin with a slash", fmt.Sprintf("write %q", "/"+text)}
	case strings.Contains(text, "?"):
		return p, fault{"has a question mark", "give the path only, without a query"}
	case text == "/":
		return p, f
	case strings.HasSuffix(text, "/"):
		bare := strings.TrimRight(text, "/")
		return p, fault{"ends with a slash, which is cleaned away", fmt.Sprintf("write %q for all below, or %q", bare+"/**", "/"+strings.TrimLeft(bare, "/"))}
	}
	deep := false
	for _, part := range strings.Split(text[1:], "/") {
		s, f := parseSegment(part, paths)
		if f != (fault{}) {
			return p, f
		}
		switch {
		case s.kind == anyDepth && deep && p.segments[len(p.segments)-1].kind == anyDepth:
			continue // "/**/**" is "/**"
		case s.kind == anyOne && s.text != "" && deep:
			return p, fault{fmt.Sprintf("has {%s} after **, where its position is not fixed", s.text), "write * there"}
		case s.kind == anyOne && s.text != "" && p.param(s.text) >= 0:
			return p, fault{fmt.Sprintf("has {%s} twice", s.text), "give the segments different names"}
		}
		deep = deep || s.kind == anyDepth
		p.segments = append(p.segments, s)
	}
	return p, f
}

func parseSegment(text string, paths Paths) (s segment, f fault) {
	switch {
	case text == "*":
		return segment{kind: anyOne}, f
	case text == "**":
		return segment{kind: anyDepth}, f
	case strings.ContainsAny(text, "{}"):
		name, ok := strings.CutPrefix(text, "{")
		name, ok2 := strings.CutSuffix(name, "}")
		if !ok || !ok2 || !isName(name) {
			return s, fault{fmt.Sprintf("has %q, and a name matches a whole segment", text), "write it as in /users/{id}"}
		}
		return segment{anyOne, name}, f
	case strings.Contains(text, "*"):
		return s, fault{fmt.Sprintf("has a star within %q, and a star matches whole segments", text), "write * for one segment, ** for any number, %2A for the star itself"}
	case text == "":
		return s, fault{"has an empty segment, which is cleaned away", "write one slash"}
	}
	for i := range len(text) {
		if _, ok := unescape(text, i); !ok && text[i] == '%' {
			return s, fault{fmt.Sprintf("has a percent sign that encodes nothing in %q", text), "write %25 for the sign itself"}
		}
	}
	clean := paths.Clean("/" + text)[1:]
	if clean == "" || strings.Contains(clean, "/") {
		return s, fault{fmt.Sprintf("has the segment %q, which no clean path has", text), "write the pattern without it"}
	}
	return segment{literal, clean}, f
}

// param returns the index of the segment called name, or -1.
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
	var behindStar string // the path from which the last ** may take one more segment
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
