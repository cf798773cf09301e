package modelusage

import (
	"bytes"
	"encoding/hex"
)

// The states of a reader: what comes next in its text.
const (
	atValue       = iota // a value
	atFirst              // the first name of an object, the first element of an array, or the end
	atName               // a name of an object
	atColon              // the colon behind a name
	atNext               // a comma, or the end of the array or object
	atEnd                // nothing
	inName               // the rest of a name
	inText               // the rest of a text
	inScalar             // the rest of a number, true, false or null
	inSkipped            // the rest of an array or object that does not count
	inSkippedText        // the rest of a text in it
	isBroken             // the text is not JSON
)

// maxDepth is the largest depth of a member that counts, with the arrays around it.
const maxDepth = 6

// longestKept is the most bytes of a name, text or number that are kept: the longest name that counts has 27 letters,
// and each of them may be written with six bytes.
const longestKept = 27 * 6

// frame is an object or array whose end has not come yet, and that has or may have members that count.
type frame struct {
	member *member
	list   bool // the frame is the array, and not an object
}

// reader reads a text of JSON, piece by piece, and keeps the values that count. It skips all other values in constant
// memory, so it does not notice all mistakes in them.
type reader struct {
	root   *member
	merges bool // a later usage has only the counts that have changed

	state   uint8
	escaped bool    // the text's last byte is a backslash
	keeps   bool    // the text or scalar is kept
	next    *member // the member whose value comes, or nil if it does not count
	skipped int     // the arrays and objects to skip that have not ended
	depth   int
	frames  [maxDepth]frame
	length  int // bytes of kept; one more than longestKept if they were too many
	kept    [longestKept]byte

	usage, latest counts // of the usage in progress, and of all usages so far
	found         bool   // there has been a usage
	finished      bool   // a text has ended that ends the answer
	document      document
}

// document is what a reader has found in the text in progress.
type document struct {
	closed  bool // the text has ended
	finish  bool // the text ends the answer when it has ended
	usage   bool // there has been a usage
	choice  bool // there has been a choice
	choices bool // an array of choices has ended
}

// reset begins another text. What the texts before reported stays.
func (r *reader) reset() {
	r.state, r.escaped, r.next, r.depth = atValue, false, r.root, 0
	r.document = document{}
}

// write reads the next bytes of the text.
func (r *reader) write(p []byte) {
	for i := 0; i < len(p); {
		switch r.state {
		case inName, inText, inSkippedText:
			i = r.readText(p, i)
		case inScalar:
			i = r.readScalar(p, i)
		case inSkipped:
			i = r.skip(p, i)
		case isBroken:
			return
		default:
			if !isSpace(p[i]) {
				r.readMark(p[i])
			}
			i++
		}
	}
}

// readMark reads the byte that begins a name or value, or is between them.
func (r *reader) readMark(c byte) {
	top := &r.frames[max(0, r.depth-1)]
	switch r.state {
	case atValue:
		r.value(c)
		return
	case atColon:
		if c == ':' {
			r.state = atValue
			return
		}
	case atFirst, atName, atNext:
		switch {
		case c == '}' && !top.list && r.state != atName, c == ']' && top.list:
			r.pop()
			return
		case c == ',' && r.state == atNext && top.list:
			r.state, r.next = atValue, top.member
			return
		case c == ',' && r.state == atNext:
			r.state = atName
			return
		case r.state == atFirst && top.list:
			r.document.choice = r.document.choice || top.member.meaning == isChoices
			r.value(c)
			return
		case c == '"' && r.state != atNext:
			r.begin(inName, true)
			return
		}
	}
	r.fail()
}

// value begins a value with its first byte.
func (r *reader) value(c byte) {
	inList := r.depth > 0 && r.frames[r.depth-1].list
	if r.next != nil && !inList && r.next.meaning < countKinds {
		// The last member of a name is valid.
		r.usage.clear(r.next.meaning)
	}
	switch {
	case c == '{' && r.next != nil && r.next.inside != nil:
		if r.next.meaning == isUsage {
			r.usage = counts{}
		}
		r.push(atFirst, frame{r.next, false})
	case c == '[' && r.next != nil && r.next.list && !inList:
		r.push(atFirst, frame{r.next, true})
	case r.depth == 0:
		r.fail()
	case c == '{' || c == '[':
		r.state, r.skipped = inSkipped, 1
	case c == '"':
		r.begin(inText, r.next != nil)
	case c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f' || c == 'n':
		r.begin(inScalar, r.next != nil && r.next.inside == nil)
		if r.keeps {
			r.kept[0], r.length = c, 1
		}
	default:
		r.fail()
	}
}

// begin begins a text or a scalar.
func (r *reader) begin(state uint8, keeps bool) {
	r.state, r.keeps, r.length = state, keeps, 0
}

// push begins an array or object whose members may count.
func (r *reader) push(state uint8, f frame) {
	r.frames[r.depth] = f
	r.depth++
	r.state = state
}

// pop ends an array or object.
func (r *reader) pop() {
	r.depth--
	top := r.frames[r.depth]
	r.document.choices = r.document.choices || top.member.meaning == isChoices
	if top.member.meaning == isUsage && r.usage.said != 0 {
		if !r.merges {
			r.latest = counts{}
		}
		r.latest.merge(&r.usage)
		r.found, r.document.usage = true, true
	}
	r.state = atNext
	if r.depth == 0 {
		r.state, r.document.closed = atEnd, true
		r.finished = r.finished || r.document.finish
	}
}

// fail gives up the text: it is not JSON.
func (r *reader) fail() {
	r.state, r.document.closed = isBroken, false
}

// readText reads the rest of a text from p[i], and returns the index after it.
func (r *reader) readText(p []byte, i int) int {
	start := i
	if r.escaped {
		r.escaped = false
		i++
	}
	i = textEnd(p, i)
	plain := r.length == 0 && i < len(p) && p[i] == '"'
	for i < len(p) && p[i] == '\\' {
		i = textEnd(p, i+2)
	}
	if i >= len(p) {
		r.escaped = i > len(p)
		r.keep(p[start:])
		return len(p)
	}
	text := p[start:i]
	if !plain {
		r.keep(text)
		text = r.text()
	}
	switch r.state {
	case inName:
		r.state, r.next = atColon, r.lookUp(text)
	case inSkippedText:
		r.state = inSkipped
	default:
		r.state = atNext
		if r.keeps && (r.next.meaning == isFinish || r.next.meaning == isType && endsStream(text)) {
			r.document.finish = true
		}
	}
	return i + 1
}

// readScalar reads the rest of a number, true, false or null from p[i], and returns the index after it.
func (r *reader) readScalar(p []byte, i int) int {
	start := i
	for i < len(p) && !endsScalar(p[i]) {
		i++
	}
	r.keep(p[start:i])
	if i == len(p) {
		return i
	}
	r.state = atNext
	if r.keeps && r.next.meaning < countKinds && r.length <= longestCount {
		if n, ok := parseCount(r.kept[:r.length]); ok {
			r.usage.set(r.next.meaning, n)
		}
	}
	return i
}

// skip skips the rest of arrays and objects from p[i], and returns the index after it.
func (r *reader) skip(p []byte, i int) int {
	for i < len(p) {
		c := p[i]
		i++
		switch c {
		case '"':
			r.begin(inSkippedText, false)
			return i
		case '{', '[':
			r.skipped++
		case '}', ']':
			if r.skipped--; r.skipped == 0 {
				r.state = atNext
				return i
			}
		}
	}
	return i
}

// keep keeps bytes of a text or scalar, if they are kept and there is space.
func (r *reader) keep(p []byte) {
	if !r.keeps || r.length > longestKept {
		return
	}
	if r.length+len(p) > longestKept {
		r.length = longestKept + 1
		return
	}
	r.length += copy(r.kept[r.length:], p)
}

// text returns the kept text, without escapes. A text that is too long, or has an escape that no name needs, is empty.
func (r *reader) text() []byte {
	if r.length > longestKept {
		return nil
	}
	text := r.kept[:r.length]
	i := bytes.IndexByte(text, '\\')
	if i < 0 {
		return text
	}
	plain := text[:i]
	for ; i < len(text); i++ {
		c := text[i]
		if c == '\\' {
			var code [2]byte
			if i+6 > len(text) || text[i+1] != 'u' {
				return nil
			}
			if _, err := hex.Decode(code[:], text[i+2:i+6]); err != nil || code[0] != 0 {
				return nil
			}
			c = code[1]
			i += 5
		}
		plain = append(plain, c)
	}
	return plain
}

// lookUp returns the member with a name in the object in progress, or nil if it does not count.
func (r *reader) lookUp(name []byte) *member {
	inside := r.frames[r.depth-1].member.inside
	for k := range inside {
		if string(name) == inside[k].name {
			return &inside[k]
		}
	}
	return nil
}
