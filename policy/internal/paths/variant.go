package paths

import (
	"bytes"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/faults"
	"github.com/sluicehq/sluice/internal/spelling"
)

// Bounds of paths that have several variants. Honest paths have few of them, and clients resolve dots
// before they send a path.
const (
	mostVariants  = 64
	longestPath   = 8 << 10 // in bytes
	longestDotted = 1 << 10
)

// tooMany is for a path beyond the bounds.
var tooMany = faults.New("can be read in too many ways", "send it without dot segments and without encoded slashes")

// Control is for a path with a control character. Services that are written in C end the path at a NUL,
// and patterns that end in "$" match a path with a line end behind it.
var Control = faults.New("has an encoded control character", "send it without")

// HasControl reports whether a path has a control character, decoded once, or several times if services may.
func (o Form) HasControl(escaped string) bool {
	for i := 0; i < len(escaped); i++ {
		if isControl(escaped[i]) {
			return true
		}
		if escaped[i] != '%' {
			continue
		}
		if o.Slash == SlashAny {
			for strings.HasPrefix(escaped[i+1:], "25") {
				i += 2
			}
		}
		if i+2 < len(escaped) {
			hi, ok1 := spelling.Unhex(escaped[i+1])
			lo, ok2 := spelling.Unhex(escaped[i+2])
			if ok1 && ok2 && isControl(hi<<4|lo) {
				return true
			}
		}
	}
	return false
}

func isControl(c byte) bool { return c < ' ' || c == 0x7f }

// Variants returns the variants of an escaped path: first the result of Clean, and others, if there are any. A variant is
// one way in which services may resolve the dots, empty segments and encoded slashes of the path. Only paths with dots or
// empty segments, and with encoded slashes, backslashes or percent signs, have several. A variant with empty segments is
// for services that do not merge slashes: see Merge. If there are too many variants, or the path has a control character,
// it returns the clean path and the fault. See docs/adr/0018 and docs/adr/0023.
func (o Form) Variants(escaped string) (clean string, others []string, f faults.Fault) {
	if escaped == "" {
		escaped = "/"
	}
	var has encoded
	if o.Slash == SlashAny {
		has = encodedIn(escaped)
	}
	if has == (encoded{}) && o.isClean(escaped) {
		return escaped, nil, f
	}
	if o.HasControl(escaped) {
		return o.Clean(escaped), nil, Control
	}
	v := variants{form: o}
	if o.Slash == SlashAny {
		v.addEncoded(escaped, has)
	} else {
		v.add(escaped, o.slashes())
	}
	if has.twice {
		again := decodeOnce(escaped)
		v.addEncoded(again, encodedIn(again))
	}
	if v.beyond || len(v.all) > 1 && len(escaped) > longestPath {
		return v.all[0], nil, tooMany
	}
	return v.all[0], v.all[1:], f
}

// encoded says which encoded bytes a path has that services take for slashes, or decode twice.
type encoded struct{ slash, backslash, twice bool }

// encodedIn returns what an escaped path has.
func encodedIn(escaped string) (has encoded) {
	for i := strings.IndexByte(escaped, '%'); i >= 0 && i < len(escaped); i++ {
		if c, ok := spelling.Unescape(escaped, i); ok {
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
	_, ok := spelling.Unhex(c)
	return ok
}

// decodeOnce decodes percent signs that encode a byte after they are decoded: "%252F" is "%2F".
func decodeOnce(escaped string) string {
	out := make([]byte, 0, len(escaped))
	for i := 0; i < len(escaped); i++ {
		out = append(out, escaped[i])
		if c, ok := spelling.Unescape(escaped, i); ok && c == '%' && i+4 < len(escaped) && isHex(escaped[i+3]) && isHex(escaped[i+4]) {
			i += 2
		}
	}
	return string(out)
}

// decodeSlashes writes slashes for encoded ones.
func decodeSlashes(escaped string, at slashes) string {
	out := make([]byte, 0, len(escaped))
	for i := 0; i < len(escaped); i++ {
		c, ok := spelling.Unescape(escaped, i)
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
	form   Form
	all    []string
	beyond bool // the bounds
}

func (v *variants) one(path string) {
	if slices.Contains(v.all, path) {
		return
	}
	if v.beyond = len(v.all) == mostVariants; !v.beyond {
		v.all = append(v.all, path)
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
	p := v.form.split(escaped, at)
	v.one(p.resolved())
	if !p.dotted() {
		v.one(p.join(p.pieces, true))
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
		p := v.form.split(text, at)
		v.one(p.resolved())
		for _, left := range [][]piece{p.left(true), p.pieces} {
			v.one(p.join(left, false))
			v.one(p.join(left, true))
		}
	}
}

// Merge returns a variant without its empty segments.
func Merge(path string) string {
	if !strings.Contains(path, "//") {
		return path
	}
	out := make([]byte, 0, len(path))
	for i := range len(path) {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			out = append(out, path[i])
		}
	}
	return string(out)
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
		if c, ok := spelling.Unescape(s, i); decode && ok && c == '.' {
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
