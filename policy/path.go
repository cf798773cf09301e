package policy

import (
	"slices"
	"strings"
)

// Paths sets how paths are cleaned before they are matched and used in keys. All spellings by which a
// service finds the same handler become one path. The zero Paths fits most services.
//
// Services resolve dots in different ways. For some services "/api/%2e%2e/x" is "/x"; for others, such
// as net/http's ServeMux, it lies below /api. Such a path has several variants, in which unresolved
// dots are "%2E" and "%2E%2E". A request is decided by all variants of its path. A rule applies if it
// matches one variant, once for each key that the variants have. The request bypasses the rules, or
// escapes a default of Deny, only if all variants do. See docs/adr/0018.
type Paths struct {
	// IgnoreCase turns ASCII letters into lower case, for services that route without regard to case.
	IgnoreCase bool
	// EncodedSlash says what "%2F" is. Default: SlashAny, for which a path with "%2F" has several variants.
	EncodedSlash EncodedSlash
	// StripParams removes what follows a semicolon in each segment, as Java's
	// servlet containers do.
	StripParams bool
}

// EncodedSlash says what "%2F" in a path is to the service.
type EncodedSlash uint8

const (
	// SlashAny is for all services. A path has a variant in which "%2F" is part of its segment, and a
	// variant in which it is a slash; the same for the backslash "%5C"; and the same for a path that
	// is decoded twice. See docs/adr/0023.
	SlashAny EncodedSlash = iota
	// SlashKeep is for services that split a path before they decode it, such as net/http's
	// ServeMux and Express: "%2F" is part of its segment.
	SlashKeep
	// SlashDecode is for services that decode a path before they split it, such as nginx, Flask and
	// hypercorn: "%2F" is a slash.
	SlashDecode
)

// Clean returns the canonical spelling of an escaped path. It
//
//   - begins the path with a slash,
//   - decodes the bytes that need no percent-encoding in a segment ("%61" is "a",
//     "%2e" is "."), and encodes all other bytes, in upper case ("%c3" is "%C3", a
//     space is "%20", a stray "%" is "%25"); it decodes nothing twice,
//   - then removes empty segments ("//") and segments of one dot; a segment of two
//     dots removes the segment before it, never beyond the root,
//   - and removes the trailing slash: "/login/" is "/login". If a service has two
//     handlers there, both have one path.
//
// "%2F" is a slash only with SlashDecode. A path that is clean is returned as it is, without
// allocation: Clean(Clean(p)) is Clean(p).
func (o Paths) Clean(escaped string) string {
	if o.isClean(escaped) {
		return escaped
	}
	p := o.split(escaped, o.slashes())
	return p.resolved(false)
}

// slashes returns which encoded bytes are slashes in the clean path.
func (o Paths) slashes() slashes {
	if o.EncodedSlash == SlashDecode {
		return slashDecoded
	}
	return slashRaw
}

// slashes says which bytes end a segment: only a slash, an encoded slash too, or also a backslash.
type slashes uint8

const (
	slashRaw slashes = iota
	slashDecoded
	slashBackward
)

// ends reports whether a decoded byte ends a segment. raw says that it was not encoded.
func (s slashes) ends(c byte, raw bool) bool {
	return c == '/' && (raw || s >= slashDecoded) || c == '\\' && s == slashBackward
}

// next decodes the byte at *i and advances *i. raw says that the byte was not encoded.
func (o Paths) next(s string, i *int) (c byte, raw, end bool) {
	if *i >= len(s) {
		return 0, false, true
	}
	if c, ok := unescape(s, *i); ok {
		*i += 3
		return c, false, false
	}
	c = s[*i]
	*i++
	return c, true, false
}

// append writes one byte of a segment.
func (o Paths) append(out []byte, c byte, raw bool) []byte {
	switch {
	case c == ';' && o.StripParams && !raw, !standsForItself[c]:
		return append(out, '%', hexDigits[c>>4], hexDigits[c&15])
	case o.IgnoreCase && 'A' <= c && c <= 'Z':
		return append(out, c|0x20)
	}
	return append(out, c)
}

// isClean reports whether Clean would change nothing. It returns false for control characters, so that
// appendVariants looks for them in few paths.
func (o Paths) isClean(s string) bool {
	if s == "/" {
		return true
	}
	if s == "" || s[0] != '/' || s[len(s)-1] == '/' {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '/':
			if dotted(s[i+1:]) {
				return false
			}
		case c == '%':
			d, ok := unescape(s, i)
			if !ok || s[i+1] > 'F' || s[i+2] > 'F' { // lower case is above
				return false
			}
			if isControl(d) || standsForItself[d] && (d != ';' || !o.StripParams) || d == '/' && o.EncodedSlash == SlashDecode {
				return false
			}
			i += 2
		case !standsForItself[c], o.IgnoreCase && 'A' <= c && c <= 'Z', o.StripParams && c == ';':
			return false
		}
	}
	return true
}

// dotted reports whether the first segment of s is empty, or one or two dots.
func dotted(s string) bool {
	if s == "" || s[0] == '/' {
		return true
	}
	if s[0] != '.' {
		return false
	}
	s = strings.TrimPrefix(s[1:], ".")
	return s == "" || s[0] == '/'
}

const hexDigits = "0123456789ABCDEF"

// unescape decodes the percent-encoded byte at i, if there is one.
func unescape(s string, i int) (byte, bool) {
	if s[i] != '%' || i+2 >= len(s) {
		return 0, false
	}
	hi, ok1 := unhex(s[i+1])
	lo, ok2 := unhex(s[i+2])
	return hi<<4 | lo, ok1 && ok2
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}

// standsForItself are the bytes of a segment that need no percent-encoding: pchar of
// RFC 3986.
var standsForItself = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@") {
		set[c] = true
	}
	return set
}()

// pieceKind says what a piece of a path is.
type pieceKind uint8

const (
	named pieceKind = iota
	gap             // nothing, between two slashes
	dot             // "."
	dots            // ".."
)

// piece is the decoded text between two slashes of a path.
type piece struct {
	start, end int // of its name
	kind       pieceKind
}

// pieces are the pieces of a path in their order, dots included.
type pieces struct {
	text   string // all names
	pieces []piece
}

// split takes an escaped path apart.
func (o Paths) split(escaped string, at slashes) pieces {
	text := make([]byte, 0, len(escaped)+16)
	all := make([]piece, 0, 8)
	start, i := 0, 0
	if escaped != "" && escaped[0] == '/' {
		i = 1
	}
	for params := false; ; { // params: within parameters, which are stripped
		c, raw, end := o.next(escaped, &i)
		if end || at.ends(c, raw) {
			all = append(all, piece{start, len(text), kindOf(string(text[start:]))})
			if end {
				return pieces{string(text), all}
			}
			start, params = len(text), false
			continue
		}
		if params = params || o.StripParams && c == ';' && raw; !params {
			text = o.append(text, c, raw)
		}
	}
}

func kindOf(segment string) pieceKind {
	switch segment {
	case "":
		return gap
	case ".":
		return dot
	case "..":
		return dots
	}
	return named
}

// dotted reports whether there are segments of dots, which services resolve in several ways.
func (p *pieces) dotted() bool {
	return slices.ContainsFunc(p.pieces, func(s piece) bool { return s.kind >= dot })
}

// resolved resolves the dots, and joins the pieces that are left. With gaps, two dots may remove an
// empty segment.
func (p *pieces) resolved(gaps bool) string {
	left := make([]piece, 0, len(p.pieces))
	for _, s := range p.pieces {
		switch {
		case s.kind == dot, s.kind == gap && !gaps:
		case s.kind == dots:
			left = left[:max(0, len(left)-1)]
		default:
			left = append(left, s)
		}
	}
	return p.join(left)
}

// join makes a path of pieces. Dots among the pieces are not resolved, so join encodes them.
func (p *pieces) join(all []piece) string {
	out := make([]byte, 0, len(p.text)+4*len(all)+1)
	for _, s := range all {
		switch s.kind {
		case gap:
		case dot:
			out = append(out, "/%2E"...)
		case dots:
			out = append(out, "/%2E%2E"...)
		default:
			out = append(append(out, '/'), p.text[s.start:s.end]...)
		}
	}
	if len(out) == 0 {
		return "/"
	}
	return string(out)
}
