package paths

import (
	"slices"
	"strings"

	"github.com/sluicehq/sluice/internal/spelling"
)

// Form is how paths are cleaned: see policy.Paths.
type Form struct {
	IgnoreCase, StripParams bool
	// Slash is what "%2F" is.
	Slash Slash
}

// Slash says what "%2F" in a path is to the service: see policy.EncodedSlash.
type Slash uint8

// The kinds of services.
const (
	SlashAny    Slash = iota // some split a path before they decode it, and some after it
	SlashKeep                // all split a path before they decode it
	SlashDecode              // all split a path after they decode it
)

// Clean returns the canonical spelling of an escaped path: see policy.Paths.Clean.
func (o Form) Clean(escaped string) string {
	if o.isClean(escaped) {
		return escaped
	}
	p := o.split(escaped, o.slashes())
	return p.resolved()
}

// slashes returns which encoded bytes are slashes in the clean path.
func (o Form) slashes() slashes {
	if o.Slash == SlashDecode {
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
func (o Form) next(s string, i *int) (c byte, raw, end bool) {
	if *i >= len(s) {
		return 0, false, true
	}
	if c, ok := spelling.Unescape(s, *i); ok {
		*i += 3
		return c, false, false
	}
	c = s[*i]
	*i++
	return c, true, false
}

// append writes one byte of a segment.
func (o Form) append(out []byte, c byte, raw bool) []byte {
	switch {
	case c == ';' && o.StripParams && !raw, !standsForItself[c]:
		return append(out, '%', hexDigits[c>>4], hexDigits[c&15])
	case o.IgnoreCase && 'A' <= c && c <= 'Z':
		return append(out, c|0x20)
	}
	return append(out, c)
}

// isClean reports whether Clean would change nothing. It returns false for control characters, so that
// Variants looks for them in few paths.
func (o Form) isClean(s string) bool {
	if s == "/" {
		return true
	}
	if s == "" || s[0] != '/' || s[len(s)-1] == '/' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if alwaysClean[s[i]] {
			continue
		}
		switch c := s[i]; {
		case c == '/':
			if dotted(s[i+1:]) {
				return false
			}
		case c == '%':
			d, ok := spelling.Unescape(s, i)
			if !ok || s[i+1] > 'F' || s[i+2] > 'F' { // lower case is above
				return false
			}
			if isControl(d) || standsForItself[d] && (d != ';' || !o.StripParams) || d == '/' && o.Slash == SlashDecode {
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

// standsForItself are the bytes of a segment that need no percent-encoding: pchar of
// RFC 3986.
var standsForItself = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@") {
		set[c] = true
	}
	return set
}()

// alwaysClean are the bytes of a segment that are clean whatever the form.
var alwaysClean = func() (set [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz0123456789-._~") {
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
func (o Form) split(escaped string, at slashes) pieces {
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

// resolved resolves the dots, and joins the pieces that are left.
func (p *pieces) resolved() string { return p.join(p.left(false), false) }

// left resolves the dots, and returns the pieces that are left. With gaps, empty segments are left too, and two dots may
// remove one.
func (p *pieces) left(gaps bool) []piece {
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
	return left
}

// join makes a path of pieces, with the empty segments before other segments if gaps is set. Dots among the pieces are not
// resolved, so join encodes them.
func (p *pieces) join(all []piece, gaps bool) string {
	for len(all) > 0 && all[len(all)-1].kind == gap {
		all = all[:len(all)-1] // a slash at the end means nothing
	}
	out := make([]byte, 0, len(p.text)+4*len(all)+1)
	for _, s := range all {
		switch s.kind {
		case gap:
			if gaps {
				out = append(out, '/')
			}
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
