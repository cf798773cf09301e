package logs

import (
	"cmp"
	"slices"
	"strings"
)

// template reads lines that are fields between literals.
type template struct {
	state
	prefix string
	pieces []piece
	times  []piece // the pieces up to the last one that the time depends on, with these fields only
	needed int     // how many pieces a line must have
	ends   bool    // the time is when the request ended
}

// piece is a field, and the literal behind it.
type piece struct {
	fields []field
	end    string // empty for the rest of the line
	quoted bool   // the end begins with a quote, and a backslash escapes quotes in the field
	list   bool   // several parts with ", " and " : " between them, as nginx writes them
	stamp  int    // the length of the time that follows: a field with the literal in it ends where the time begins
	behind string // what follows that time
}

func (t *template) when(line string, rec *Record) (why string) {
	if why = t.run(t.times, line, rec); why == "" && t.ends && rec.Duration > 0 {
		rec.At -= rec.Duration
	}
	return why
}

func (t *template) parse(line string, rec *Record) (why string) {
	t.room = t.room[:0]
	return t.run(t.pieces, line, rec)
}

// run sets the fields of pieces.
func (t *template) run(pieces []piece, line string, rec *Record) (why string) {
	if !strings.HasPrefix(line, t.prefix) {
		return otherLine
	}
	rest := line[len(t.prefix):]
	for i := range pieces {
		p := &pieces[i]
		text := rest
		if p.end != "" {
			n := p.find(rest)
			if n >= 0 {
				text, rest = rest[:n], rest[n+len(p.end):]
			} else if rest = ""; i+1 < t.needed {
				return otherLine
			}
		}
		for _, f := range p.fields {
			if why := f.set(rec, text, &t.state); why != "" {
				return why
			}
		}
		if rest == "" && i+1 >= t.needed {
			break
		}
	}
	return ""
}

// find returns where the literal behind the field is, -1 if it is not in the text.
func (p *piece) find(text string) int {
	for from := 0; ; from++ {
		n := strings.IndexByte(text[from:], p.end[0])
		if n < 0 {
			return -1
		}
		from += n
		if len(p.end) == 1 && !p.quoted && !p.list || strings.HasPrefix(text[from:], p.end) && p.ends(text, from) {
			return from
		}
	}
}

// ends reports whether the field ends at the literal that is there.
func (p *piece) ends(text string, n int) bool {
	switch {
	case p.quoted:
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

// finish makes the pieces ready.
func (t *template) finish(b *builder) {
	t.needed = cmp.Or(b.least, len(t.pieces))
	for i := range t.pieces {
		p := &t.pieces[i]
		p.quoted = strings.HasPrefix(p.end, `"`)
		if i+1 < len(t.pieces) && strings.HasSuffix(p.end, " [") {
			if next := t.pieces[i+1]; slices.ContainsFunc(next.fields, func(f field) bool { return f.kind == stamp }) && strings.HasPrefix(next.end, "] ") {
				p.stamp, p.behind = len("10/Oct/2000:13:55:36 -0700"), next.end
			}
		}
	}
	for i, p := range t.pieces {
		own, others := b.split(p.fields)
		t.pieces[i].fields = others
		p.fields = own
		t.times = append(t.times, p)
	}
	for n := len(t.times); n > 0 && len(t.times[n-1].fields) == 0; n-- {
		t.times = t.times[:n-1]
	}
}
