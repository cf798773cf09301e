package logs

import (
	"math/bits"
	"slices"
	"strings"
)

// template is fields between literals.
type template struct {
	prefix string
	pieces []piece
}

// piece is a field, and the literal behind it.
type piece struct {
	fields []field
	end    string // empty for the rest of the line
	list   bool   // several parts with ", " and " : " between them, as nginx writes them
}

// set sets the fields of a line.
func (p *program) set(line string, rec *Record, s *state) (why string) {
	if !strings.HasPrefix(line, p.prefix) {
		return otherLine
	}
	found, ok := p.find(line, len(p.prefix))
	if !ok {
		return otherLine
	}
	for i := range p.sets {
		f := &p.sets[i]
		if f.cut >= found {
			break
		}
		c := p.cuts[f.cut]
		if why := f.field.set(rec, line[c.from:c.to], s); why != "" {
			return why
		}
	}
	return ""
}

// literal adds a text between fields.
func (t *template) literal(text string) {
	if len(t.pieces) == 0 {
		t.prefix += text
		return
	}
	t.pieces[len(t.pieces)-1].end += text
}

// reader returns how lines with so many pieces are read.
func (t *template) reader(b *builder, needed int) *lineReader {
	return &lineReader{state{escapes: b.escapes, requests: b.requests, ends: b.ends}, newProgram(b, t, needed, true), newProgram(b, t, needed, false)}
}

// program finds fields of a line, and sets them.
type program struct {
	prefix string // of all lines
	steps  []step
	sets   []set // in the order of the cuts
	cuts   []cut // of the last line: for each step, its field and the time behind it
}

// set is a field, and where its text is.
type set struct {
	field
	cut int
}

// cut is a part of a line.
type cut struct{ from, to int }

// step finds the end of a field.
type step struct {
	piece
	first  uint64 // the first byte of the literal, eight times
	head   uint64 // the first bytes of the literal, at most eight
	mask   uint64 // of the head
	must   bool   // a line without the literal is not of the format
	plain  bool   // the field ends where the head is
	quoted bool   // the literal begins with a quote, and a backslash escapes quotes in the field
	timed  bool   // a time follows: a field with the literal in it ends where the time begins
	behind string // what follows that time
}

// stampSize is the length of a time that a step skips.
const stampSize = len("10/Oct/2000:13:55:36 -0700")

// newProgram makes the program that sets the time and what it depends on, or all but the time.
func newProgram(b *builder, t *template, needed int, times bool) *program {
	p, pieces := &program{prefix: t.prefix}, t.pieces
	for i := 0; i < len(pieces); i++ {
		s := step{piece: pieces[i], must: i+1 < needed, quoted: strings.HasPrefix(pieces[i].end, `"`)}
		fields, behind := b.part(s.fields, times), []field(nil)
		if i+1 < len(pieces) && strings.HasSuffix(s.end, " [") {
			next := pieces[i+1]
			if s.timed = slices.ContainsFunc(next.fields, func(f field) bool { return f.kind == stamp }) && strings.HasPrefix(next.end, "] "); s.timed {
				s.behind, behind = next.end, b.part(next.fields, times)
				i++
			}
		}
		if n := min(8, len(s.end)); n > 0 {
			s.first, s.mask, s.head = ones*uint64(s.end[0]), ^uint64(0)>>(64-8*n), word((s.end + "       ")[:8])
			s.head &= s.mask
		}
		s.plain = len(s.end) <= 8 && !s.quoted && !s.timed && !s.list
		// A field of which nothing is set need not be found if no field can have the literal that follows: servers escape quotes.
		if n := len(p.steps) - 1; n >= 0 && len(fields) == 0 && !s.quoted && strings.Contains(s.end+s.behind, `"`) && !p.steps[n].quoted && !p.uses(n) {
			p.steps = p.steps[:n]
		}
		for _, f := range fields {
			p.sets = append(p.sets, set{f, 2 * len(p.steps)})
		}
		for _, f := range behind {
			p.sets = append(p.sets, set{f, 2*len(p.steps) + 1})
		}
		p.steps = append(p.steps, s)
	}
	for n := len(p.steps) - 1; n >= 0 && !p.uses(n) && (times || !p.steps[n].must); n-- {
		p.steps = p.steps[:n]
	}
	p.cuts = make([]cut, 2*len(p.steps))
	return p
}

// uses reports whether something of the last step is set.
func (p *program) uses(last int) bool { return len(p.sets) > 0 && p.sets[len(p.sets)-1].cut/2 == last }

// find finds the fields of a line behind the prefix, and returns how many cuts there are. It returns false for a line that is not of
// the format.
func (p *program) find(line string, at int) (found int, ok bool) {
	for i := range p.steps {
		s := &p.steps[i]
		from := at
		for ok = false; !ok && s.end != ""; at++ {
			next := 16
			if at+16 <= len(line) { // most fields are short: no branch depends on how short they are
				a, b := word(line[at:at+8])^s.first, word(line[at+8:at+16])^s.first
				next = bits.TrailingZeros64((a-ones)&^a&(ones<<7)) / 8
				next += bits.TrailingZeros64((b-ones)&^b&(ones<<7)) / 8 & -(next / 8) // if the first eight bytes lack it
			}
			if next == 16 {
				next = strings.IndexByte(line[at:], s.end[0])
			}
			if next < 0 {
				break
			}
			at += next
			if at+8 <= len(line) {
				ok = word(line[at:at+8])&s.mask == s.head && (s.plain || s.ends(line[from:], at-from))
			} else {
				ok = strings.HasPrefix(line[at:], s.end) && s.ends(line[from:], at-from)
			}
		}
		if !ok {
			p.cuts[2*i] = cut{from, len(line)}
			return 2*i + 1, !s.must
		}
		p.cuts[2*i] = cut{from, at - 1}
		at += len(s.end) - 1
		if s.timed {
			p.cuts[2*i+1] = cut{at, at + stampSize}
			at += stampSize + len(s.behind)
		}
		if at == len(line) && !s.must {
			return 2*i + 2, true
		}
	}
	return len(p.cuts), true
}

// ones is 1 in each of eight bytes.
const ones = 0x0101010101010101

// word returns the first eight bytes of a text, the first one as the lowest.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// ends reports whether the field ends at the literal that is there.
func (s *step) ends(text string, n int) bool {
	switch {
	case len(s.end) > 8 && !strings.HasPrefix(text[n:], s.end):
		return false
	case s.quoted:
		if n == 0 || text[n-1] != '\\' {
			return true
		}
		unescaped := strings.TrimRight(text[:n], `\`)
		return (n-len(unescaped))%2 == 0
	case s.timed:
		after := n + len(s.end) + stampSize
		return after <= len(text) && strings.HasPrefix(text[after:], s.behind)
	case s.list:
		return n == 0 || text[n-1] != ',' && text[n-1] != ':' && !strings.HasPrefix(text[n+1:], ": ")
	default:
		return true
	}
}
