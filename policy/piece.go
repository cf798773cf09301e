package policy

import "slices"

// pieceKind says what a piece of a path is.
type pieceKind uint8

const (
	named pieceKind = iota
	gap             // nothing, between two slashes
	dot             // "."
	dots            // ".."
)

// piece is what lies between two slashes of a path, decoded.
type piece struct {
	start, end int // of its name
	kind       pieceKind
}

// pieces are those of a path in their order, dots and all.
type pieces struct {
	text   string // all names
	pieces []piece
}

// split takes an escaped path apart.
func (o Paths) split(escaped string) pieces {
	text := make([]byte, 0, len(escaped)+16)
	all := make([]piece, 0, 8)
	start, i := 0, 0
	if escaped != "" && escaped[0] == '/' {
		i = 1
	}
	for params := false; ; { // within what is stripped
		c, raw, end := o.next(escaped, &i)
		if end || c == '/' && (raw || o.DecodeSlashes) {
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

// dotted reports whether there are dots, which can be read in several ways.
func (p *pieces) dotted() bool {
	return slices.ContainsFunc(p.pieces, func(s piece) bool { return s.kind >= dot })
}

// resolved joins what is left when dots, and what two of them take back, are removed. With gaps, that can be
// an empty segment.
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

// join makes a path of pieces. Dots among them are names, encoded so that nobody takes them for anything else.
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
