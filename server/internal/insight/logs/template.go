package logs

import "strings"

// template reads lines that are fields between literals.
type template struct {
	stamps
	prefix string
	pieces []piece
	needed int  // how many pieces a line must have
	ends   bool // the time is when the request ended
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

func (t *template) parse(line string, rec *Record) (why string) {
	if !strings.HasPrefix(line, t.prefix) {
		return otherLine
	}
	rest := line[len(t.prefix):]
	for i := range t.pieces {
		p := &t.pieces[i]
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
			if why := f.set(rec, text, &t.stamps); why != "" {
				return why
			}
		}
		if rest == "" && i+1 >= t.needed {
			break
		}
	}
	if t.ends && rec.Duration > 0 {
		rec.At -= rec.Duration
	}
	return ""
}

// find returns where the literal behind the field is, -1 if it is not in the text.
func (p *piece) find(text string) int {
	from := 0
	for {
		var n int
		if p.quoted || len(p.end) == 1 {
			n = strings.IndexByte(text[from:], p.end[0])
		} else {
			n = strings.Index(text[from:], p.end)
		}
		if n < 0 {
			return -1
		}
		n += from
		if p.ends(text, n) {
			return n
		}
		from = n + 1
	}
}

// ends reports whether the field ends at the literal that is there.
func (p *piece) ends(text string, n int) bool {
	switch {
	case p.quoted:
		escaped := false
		for i := n - 1; i >= 0 && text[i] == '\\'; i-- {
			escaped = !escaped
		}
		return !escaped && strings.HasPrefix(text[n:], p.end)
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
func (t *template) finish() {
	for i := range t.pieces {
		p := &t.pieces[i]
		p.quoted = strings.HasPrefix(p.end, `"`)
		if i+1 < len(t.pieces) && strings.HasSuffix(p.end, " [") {
			if next := t.pieces[i+1]; len(next.fields) > 0 && next.fields[0].kind == stamp && strings.HasPrefix(next.end, "] ") {
				p.stamp, p.behind = len("10/Oct/2000:13:55:36 -0700"), next.end
			}
		}
	}
	if t.needed == 0 {
		t.needed = len(t.pieces)
	}
}
