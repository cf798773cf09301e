package patterns

import (
	"fmt"
	"strings"

	"github.com/sluicehq/sluice/internal/faults"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy/internal/paths"
)

// Kind is what a segment of a pattern matches.
type Kind uint8

// The kinds of segments.
const (
	Literal  Kind = iota
	AnyOne        // "*" and "{name}"
	AnyDepth      // "**"
)

// Segment is one segment of a pattern.
type Segment struct {
	Kind Kind
	Text string // of a Literal, clean; of AnyOne its name, if it has one
}

// Pattern is one of a rule's Paths.
type Pattern struct {
	Text     string
	Segments []Segment
}

// Everything is the pattern of a rule without Paths.
var Everything = Pattern{Text: "/**", Segments: []Segment{{Kind: AnyDepth}}}

// Parse reads a pattern, or returns why the text is not a pattern.
func Parse(text string, form paths.Form) (p Pattern, f faults.Fault) {
	p.Text = text
	switch {
	case text == "":
		return p, faults.New("is empty", "give a path such as /api/**")
	case strings.Contains(text, "://"):
		return p, faults.New("is a URL", "give its path only, and put its host under the hosts")
	case text[0] != '/':
		return p, faults.New("does not begin with a slash", fmt.Sprintf("write %q", "/"+text))
	case strings.Contains(text, "?"):
		return p, faults.New("has a question mark", "give the path only, without a query")
	case text == "/":
		return p, f
	case strings.HasSuffix(text, "/"):
		bare := strings.TrimRight(text, "/")
		return p, faults.New("ends with a slash, which is cleaned away", fmt.Sprintf("write %q for all below, or %q", bare+"/**", "/"+strings.TrimLeft(bare, "/")))
	}
	deep := false
	for _, part := range strings.Split(text[1:], "/") {
		s, f := parseSegment(part, form)
		if f != (faults.Fault{}) {
			return p, f
		}
		switch {
		case s.Kind == AnyDepth && deep && p.Segments[len(p.Segments)-1].Kind == AnyDepth:
			continue // "/**/**" is "/**"
		case s.Kind == AnyOne && s.Text != "" && deep:
			return p, faults.New(fmt.Sprintf("has {%s} after **, where its position is not fixed", s.Text), "write * there")
		case s.Kind == AnyOne && s.Text != "" && p.Param(s.Text) >= 0:
			return p, faults.New(fmt.Sprintf("has {%s} twice", s.Text), "give the segments different names")
		}
		deep = deep || s.Kind == AnyDepth
		p.Segments = append(p.Segments, s)
	}
	return p, f
}

func parseSegment(text string, form paths.Form) (s Segment, f faults.Fault) {
	switch {
	case text == "*":
		return Segment{Kind: AnyOne}, f
	case text == "**":
		return Segment{Kind: AnyDepth}, f
	case strings.ContainsAny(text, "{}"):
		name, ok := strings.CutPrefix(text, "{")
		name, ok2 := strings.CutSuffix(name, "}")
		if !ok || !ok2 || !IsName(name) {
			return s, faults.New(fmt.Sprintf("has %q, and a name matches a whole segment", text), "write it as in /users/{id}")
		}
		return Segment{AnyOne, name}, f
	case strings.Contains(text, "*"):
		return s, faults.New(fmt.Sprintf("has a star within %q, and a star matches whole segments", text), "write * for one segment, ** for any number, %2A for the star itself")
	case text == "":
		return s, faults.New("has an empty segment, which is cleaned away", "write one slash")
	}
	for i := range len(text) {
		if _, ok := spelling.Unescape(text, i); !ok && text[i] == '%' {
			return s, faults.New(fmt.Sprintf("has a percent sign that encodes nothing in %q", text), "write %25 for the sign itself")
		}
	}
	clean := form.Clean("/" + text)[1:]
	if clean == "" || strings.Contains(clean, "/") {
		return s, faults.New(fmt.Sprintf("has the segment %q, which no clean path has", text), "write the pattern without it")
	}
	return Segment{Literal, clean}, f
}

// Param returns the index of the segment called name, or -1.
func (p *Pattern) Param(name string) int {
	for i, s := range p.Segments {
		if s.Kind == AnyOne && s.Text == name {
			return i
		}
	}
	return -1
}

// Cut takes the first segment off a path of the form "/a/b" or "".
func Cut(path string) (segment, rest string) {
	path = path[1:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// At returns the n-th segment of a clean path.
func At(path string, n int) (string, bool) {
	for path != "" && path != "/" {
		var s string
		s, path = Cut(path)
		if n == 0 {
			return s, true
		}
		n--
	}
	return "", false
}

// Match reports whether the segments match the whole of a path of the form "/a/b" or "".
func Match(segments []Segment, path string) bool {
	i, star := 0, -1
	var behindStar string // the path from which the last ** may take one more segment
	for path != "" {
		if i < len(segments) && segments[i].Kind == AnyDepth {
			star, behindStar = i, path
			i++
			continue
		}
		text, rest := Cut(path)
		if i < len(segments) && (segments[i].Kind == AnyOne || segments[i].Text == text) {
			i, path = i+1, rest
			continue
		}
		if star < 0 {
			return false
		}
		_, behindStar = Cut(behindStar)
		i, path = star+1, behindStar
	}
	for i < len(segments) && segments[i].Kind == AnyDepth {
		i++
	}
	return i == len(segments)
}

// IsName reports whether text is a name of a rule, a limit or a segment.
func IsName(text string) bool {
	if text == "" || len(text) > MaxName {
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

// MaxName is the length of the longest name.
const MaxName = 100
