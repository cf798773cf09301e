package policy

import (
	"bytes"
	"slices"
	"strings"
)

// variant is one way in which services may resolve the dots of a path. Most paths have one variant.
type variant struct {
	path    string
	class   int  // of the request by this variant, or noClass
	matched bool // some rule matches this variant
}

// appendVariants appends the variants of an escaped path: first the result of Clean. Only paths with
// dots have several. Services resolve all dots, or only dots that are not encoded, or none. From
// "a//..", some services remove the empty segment, and others remove "a". A proxy before the service
// may have resolved some of them already, in its own way.
func (o Paths) appendVariants(dst []variant, escaped string) []variant {
	if escaped == "" {
		escaped = "/"
	}
	if o.isClean(escaped) {
		return append(dst, variant{path: escaped, class: noClass})
	}
	return o.appendDotted(dst, escaped)
}

// appendDotted appends the variants of a path that is not clean.
func (o Paths) appendDotted(dst []variant, escaped string) []variant {
	add := func(path string) {
		if !slices.ContainsFunc(dst, func(r variant) bool { return r.path == path }) {
			dst = append(dst, variant{path: path, class: noClass})
		}
	}
	p := o.split(escaped)
	add(p.resolved(false))
	if !p.dotted() {
		return dst
	}
	passed := []string{escaped}
	for _, decode := range []bool{false, true} {
		for _, text := range passed {
			for _, gaps := range []bool{false, true} {
				if next := resolveText(text, decode, gaps); !slices.Contains(passed, next) {
					passed = append(passed, next)
				}
			}
		}
	}
	for _, text := range passed {
		p := o.split(text)
		add(p.resolved(false))
		add(p.resolved(true))
		add(p.join(p.pieces))
	}
	return dst
}

// resolveText resolves the dots of an escaped path, encoded dots only if decode is set. With gaps,
// two dots may remove an empty segment; without, empty segments are removed first. Everything else
// stays as it is.
func resolveText(escaped string, decode, gaps bool) string {
	out := make([]byte, 0, len(escaped)+1)
	for s := range strings.SplitSeq(strings.TrimPrefix(escaped, "/"), "/") {
		switch dotsOf(s, decode) {
		case gap:
			if gaps {
				out = append(out, '/')
			}
		case dot:
		case dots:
			out = out[:max(0, bytes.LastIndexByte(out, '/'))]
		default:
			out = append(append(out, '/'), s...)
		}
	}
	return string(out)
}

// dotsOf returns the kind of an escaped segment.
func dotsOf(s string, decode bool) pieceKind {
	n := 0
	for i := 0; i < len(s); i++ {
		if c, ok := unescape(s, i); decode && ok && c == '.' {
			i += 2
		} else if s[i] != '.' {
			return named
		}
		if n++; n > 2 {
			return named
		}
	}
	return []pieceKind{gap, dot, dots}[n]
}

// classify finds the class of a request for each variant of its path. If all variants have the same
// class, the request has that class; otherwise it has no class, and no units are reserved for it.
// classify reports whether all variants bypass the rules.
func (p *Policy) classify(s *scratch) (bypass bool) {
	bypass = true
	for i := range s.variants {
		p.turn(s, i)
		class := p.classOf(&s.matching)
		s.variants[i].class = class
		if i == 0 {
			s.class = class
		}
		if class != s.class {
			s.class = noClass
		}
		bypass = bypass && p.bypasses(class)
	}
	if bypass {
		s.class = s.variants[0].class
	}
	return bypass
}

// turn makes a variant of the path the current one.
func (p *Policy) turn(s *scratch, i int) {
	r := &s.variants[i]
	s.variant, s.matched = i, r.matched
	s.attributes.Path, s.matching.class, s.matching.name = r.path, r.class, p.className(r.class)
}
