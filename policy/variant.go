package policy

import (
	"bytes"
	"slices"
	"strings"
)

// variant is one way in which services may resolve the dots and encoded slashes of a path. Most paths
// have one variant. See docs/adr/0018 and docs/adr/0023.
type variant struct {
	path    string
	class   int  // of the request by this variant, or noClass
	matched bool // some rule matches this variant
	certain bool // some rule does whichever of several values a service reads
	unsure  bool // the class depends on which of several values a service reads
}

// Bounds of paths that have several variants. Honest paths have few of them, and clients resolve dots
// before they send a path.
const (
	mostVariants  = 64
	longestPath   = 8 << 10 // in bytes
	longestDotted = 1 << 10
)

// errPath is for a path beyond the bounds.
var errPath = &AttributeError{"path", "can be read in too many ways", "send it without dot segments and without encoded slashes"}

// errControl is for a path with a control character. Services that are written in C end the path at a NUL,
// and patterns that end in "$" match a path with a line end behind it.
var errControl = &AttributeError{"path", "has an encoded control character", "send it without"}

// CheckPath returns an *AttributeError for an escaped path with a control character, such as "%00", also
// encoded several times. Policies refuse such a path themselves; it is for edges that use a path only in keys.
func CheckPath(escaped string) error {
	if (Paths{}).hasControl(escaped) {
		return errControl
	}
	return nil
}

// hasControl reports whether a path has a control character, decoded once, or several times if services may.
func (o Paths) hasControl(escaped string) bool {
	for i := 0; i < len(escaped); i++ {
		if isControl(escaped[i]) {
			return true
		}
		if escaped[i] != '%' {
			continue
		}
		if o.EncodedSlash == SlashAny {
			for strings.HasPrefix(escaped[i+1:], "25") {
				i += 2
			}
		}
		if i+2 < len(escaped) {
			hi, ok1 := unhex(escaped[i+1])
			lo, ok2 := unhex(escaped[i+2])
			if ok1 && ok2 && isControl(hi<<4|lo) {
				return true
			}
		}
	}
	return false
}

func isControl(c byte) bool { return c < ' ' || c == 0x7f }

// appendVariants appends the variants of an escaped path: first the result of Clean. Only paths with
// dots, and with encoded slashes, backslashes or percent signs, have several. It fails if there are too
// many.
func (o Paths) appendVariants(dst []variant, escaped string) ([]variant, error) {
	if escaped == "" {
		escaped = "/"
	}
	var has encoded
	if o.EncodedSlash == SlashAny {
		has = encodedIn(escaped)
	}
	if has == (encoded{}) && o.isClean(escaped) {
		return append(dst, variant{path: escaped, class: noClass}), nil
	}
	if o.hasControl(escaped) {
		return append(dst, variant{path: o.Clean(escaped), class: noClass}), errControl
	}
	v := variants{paths: o, all: dst}
	if o.EncodedSlash == SlashAny {
		v.addEncoded(escaped, has)
	} else {
		v.add(escaped, o.slashes())
	}
	if has.twice {
		again := decodeOnce(escaped)
		v.addEncoded(again, encodedIn(again))
	}
	if v.beyond || len(v.all) > 1 && len(escaped) > longestPath {
		clear(v.all[1:])
		return v.all[:1], errPath
	}
	return v.all, nil
}

// encoded says which encoded bytes a path has that services take for slashes, or decode twice.
type encoded struct{ slash, backslash, twice bool }

// encodedIn returns what an escaped path has.
func encodedIn(escaped string) (has encoded) {
	for i := strings.IndexByte(escaped, '%'); i >= 0 && i < len(escaped); i++ {
		if c, ok := unescape(escaped, i); ok {
			switch c {
			case '/':
				has.slash = true
			case '\\':
				has.backslash = true
			case '%':
				if i+4 < len(escaped) && isHex(escaped[i+3]) && isHex(escaped[i+4]) {
					has.twice = true
				}
			}
			i += 2
		}
	}
	return has
}

func isHex(c byte) bool {
	_, ok := unhex(c)
	return ok
}

// decodeOnce decodes percent signs that encode a byte after they are decoded: "%252F" is "%2F".
func decodeOnce(escaped string) string {
	out := make([]byte, 0, len(escaped))
	for i := 0; i < len(escaped); i++ {
		out = append(out, escaped[i])
		if c, ok := unescape(escaped, i); ok && c == '%' && i+4 < len(escaped) && isHex(escaped[i+3]) && isHex(escaped[i+4]) {
			i += 2
		}
	}
	return string(out)
}

// decodeSlashes writes slashes for encoded ones.
func decodeSlashes(escaped string, at slashes) string {
	out := make([]byte, 0, len(escaped))
	for i := 0; i < len(escaped); i++ {
		c, ok := unescape(escaped, i)
		switch {
		case ok && at.ends(c, false):
			out = append(out, '/')
			i += 2
		case at.ends(escaped[i], true):
			out = append(out, '/')
		default:
			out = append(out, escaped[i])
		}
	}
	return string(out)
}

// variants collects the variants of a path.
type variants struct {
	paths  Paths
	all    []variant
	beyond bool // the bounds
}

func (v *variants) one(path string) {
	if slices.ContainsFunc(v.all, func(r variant) bool { return r.path == path }) {
		return
	}
	if v.beyond = len(v.all) == mostVariants; !v.beyond {
		v.all = append(v.all, variant{path: path, class: noClass})
	}
}

// addEncoded adds the variants of a path in which services take other bytes for slashes than a slash.
func (v *variants) addEncoded(escaped string, has encoded) {
	for at := slashRaw; at <= slashBackward; at++ {
		switch {
		case at == slashDecoded && !has.slash, at == slashBackward && !has.backslash:
			continue
		case at != slashRaw:
			v.add(decodeSlashes(escaped, at), slashRaw)
		}
		v.add(escaped, at)
	}
}

// add adds the variants of a path whose segments end at some bytes. Services resolve all dots, or only
// dots that are not encoded, or none. From "a//..", some services remove the empty segment, and others
// remove "a". A proxy before the service may have resolved some of them already, in its own way.
func (v *variants) add(escaped string, at slashes) {
	if v.beyond {
		return
	}
	p := v.paths.split(escaped, at)
	v.one(p.resolved(false))
	if !p.dotted() {
		return
	}
	if len(escaped) > longestDotted {
		v.beyond = true
		return
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
		p := v.paths.split(text, at)
		v.one(p.resolved(false))
		v.one(p.resolved(true))
		v.one(p.join(p.pieces))
	}
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
		class, unsure := p.classOf(&s.matching)
		s.variants[i].class, s.variants[i].unsure = class, unsure
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
	s.variant, s.matched, s.certain = i, r.matched, r.certain
	s.attributes.Path, s.matching.class, s.matching.name, s.matching.unsure = r.path, r.class, p.className(r.class), r.unsure
}
