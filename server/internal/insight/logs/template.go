package logs

import (
	"slices"
	"strings"
)

// template reads lines that are fields between literals.
type template struct {
	state
	prefix string
	pieces []piece
	times  []piece // with only the fields that the time depends on
}

// piece is a field, and the literal behind it.
type piece struct {
	fields []field
	end    string // empty for the rest of the line
	must   bool   // a line without the literal is not of the format
	plain  bool   // the field ends at the first byte of the literal
	quoted bool   // the end begins with a quote, and a backslash escapes quotes in the field
	list   bool   // several parts with ", " and " : " between them, as nginx writes them
	stamp  int    // the length of the time that follows: a field with the literal in it ends where the time begins
	behind string // what follows that time
}

func (t *template) when(line string, rec *Record) (why string) {
	rec.At = unknownTime
	return t.begin(rec, t.run(t.times, line, rec))
}

func (t *template) parse(line string, rec *Record) (why string) {
	return t.run(t.pieces, line, rec)
}

// run sets the fields of pieces.
func (t *template) run(pieces []piece, line string, rec *Record) (why string) {
	if t.prefix != "" && !strings.HasPrefix(line, t.prefix) {
		return otherLine
	}
	rest := line[len(t.prefix):]
	for i := range pieces {
		p := &pieces[i]
		text := rest
		if p.end != "" {
			n := strings.IndexByte(rest, p.end[0])
			if !p.plain && n >= 0 {
				n = p.find(rest, n)
			}
			if n >= 0 {
				text, rest = rest[:n], rest[n+len(p.end):]
			} else if rest = ""; p.must {
				return otherLine
			}
		}
		for _, f := range p.fields {
			if why := f.set(rec, text, &t.state); why != "" {
				return why
			}
		}
		if rest == "" && !p.must {
			break
		}
	}
	return ""
}

// find returns where the literal behind the field is, -1 if it is not in the text. It looks from n, where its first byte is.
func (p *piece) find(text string, n int) int {
	for {
		if p.is(text[n:]) && p.ends(text, n) {
			return n
		}
		next := strings.IndexByte(text[n+1:], p.end[0])
		if next < 0 {
			return -1
		}
		n += 1 + next
	}
}

// is reports whether a text begins with the literal. Its first byte does.
func (p *piece) is(text string) bool {
	n := len(p.end)
	return n == 1 || len(text) >= n && text[1] == p.end[1] && (n == 2 || text[2:n] == p.end[2:])
}

// ends reports whether the field ends at the literal that is there.
func (p *piece) ends(text string, n int) bool {
	switch {
	case p.quoted:
		if n == 0 || text[n-1] != '\\' {
			return true
		}
		unescaped := strings.TrimRight(text[:n], `\`)
		return (n-len(unescaped))%2 == 0
	case p.stamp > 0:
		after := n + len(p.end) + p.stamp
		return after <= len(text) && strings.HasPrefix(text[after:], p.behind)
	case p.list:
		return n == 0 || text[n-1] != ',' && text[n-1] != ':' && !strings.HasPrefix(text[n+1:], ": ")
	default:
		return true
	}
}

// literal adds a text between fields.
func (t *template) literal(text string) {
	if len(t.pieces) == 0 {
		t.prefix += text
		return
	}
	t.pieces[len(t.pieces)-1].end += text
}

// finish makes the pieces ready. A line must have so many of them.
func (t *template) finish(b *builder, needed int) {
	all := t.pieces
	t.pieces = nil
	for i, p := range all {
		p.must = i+1 < needed
		p.quoted = strings.HasPrefix(p.end, `"`)
		if i+1 < len(all) && strings.HasSuffix(p.end, " [") {
			if next := all[i+1]; slices.ContainsFunc(next.fields, func(f field) bool { return f.kind == stamp }) && strings.HasPrefix(next.end, "] ") {
				p.stamp, p.behind = len("10/Oct/2000:13:55:36 -0700"), next.end
			}
		}
		p.plain = len(p.end) == 1 && !p.quoted && !p.list
		fields := p.fields
		p.fields, _ = b.split(fields)
		t.times = p.addTo(t.times)
		_, p.fields = b.split(fields)
		t.pieces = p.addTo(t.pieces)
	}
	t.times = trim(t.times, func(p piece) bool { return true })
	t.pieces = trim(t.pieces, func(p piece) bool { return !p.must })
}

// trim removes the last pieces without a field that are not of use.
func trim(pieces []piece, useless func(piece) bool) []piece {
	n := len(pieces)
	for n > 0 && len(pieces[n-1].fields) == 0 && useless(pieces[n-1]) {
		n--
	}
	return pieces[:n]
}

// addTo adds a piece. A piece without a field before it is not needed, if no field can have the literal that follows:
// servers escape quotes.
func (p piece) addTo(pieces []piece) []piece {
	if n := len(pieces); n > 0 && len(p.fields) == 0 && !p.quoted && strings.Contains(p.end+p.behind, `"`) {
		if before := pieces[n-1]; len(before.fields) == 0 && !before.quoted {
			pieces = pieces[:n-1]
		}
	}
	return append(pieces, p)
}
