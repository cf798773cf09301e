package api

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// buffers holds the buffers that bodies are read into, and that answers are written from.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// largestKept bounds the buffers that are kept for later calls, in bytes.
const largestKept = 256 << 10

// keep keeps a buffer for later calls.
func keep(b *[]byte) {
	if cap(*b) <= largestKept {
		buffers.Put(b)
	}
}

// Values of headers that many answers share. Nobody changes them.
var (
	isJSON  = []string{"application/json"}
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"}
)

// writeDecision writes a decision as the whole answer.
func writeDecision(w http.ResponseWriter, status int, e *decision) {
	b := buffers.Get().(*[]byte)
	*b = append(e.appendJSON((*b)[:0]), '\n')
	h := w.Header()
	h["Content-Type"] = isJSON
	h["Content-Length"] = []string{strconv.Itoa(len(*b))}
	w.WriteHeader(status)
	_, _ = w.Write(*b) // the client may be gone
	keep(b)
}

// fields appends the fields of one JSON object. Package encoding/json would write the same bytes.
type fields struct {
	b    []byte
	some bool // a field was written
}

// name begins a field.
func (f *fields) name(name string) {
	c := byte(',')
	if !f.some {
		c, f.some = '{', true
	}
	f.b = append(f.b, c, '"')
	f.b = append(f.b, name...)
	f.b = append(f.b, '"', ':')
}

func (f *fields) text(name, s string) {
	f.name(name)
	f.b = appendText(f.b, s)
}

// textIf leaves an empty text out.
func (f *fields) textIf(name, s string) {
	if s != "" {
		f.text(name, s)
	}
}

func (f *fields) number(name string, n int64) {
	f.name(name)
	f.b = strconv.AppendInt(f.b, n, 10)
}

// numberIf leaves zero out.
func (f *fields) numberIf(name string, n int64) {
	if n != 0 {
		f.number(name, n)
	}
}

// given leaves a number that is not given out.
func (f *fields) given(name string, n *int64) {
	if n != nil {
		f.number(name, *n)
	}
}

func (f *fields) boolean(name string, set bool) {
	f.name(name)
	f.b = strconv.AppendBool(f.b, set)
}

// set leaves false out.
func (f *fields) set(name string, set bool) {
	if set {
		f.boolean(name, set)
	}
}

// texts writes an object of texts; a nil map is null.
func (f *fields) texts(name string, m map[string]string) {
	f.name(name)
	if m == nil {
		f.b = append(f.b, "null"...)
		return
	}
	o := fields{b: f.b}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		c := byte(',')
		if !o.some {
			c, o.some = '{', true
		}
		o.b = append(appendText(append(o.b, c), k), ':')
		o.b = appendText(o.b, m[k])
	}
	f.b = o.end()
}

// end ends the object.
func (f *fields) end() []byte {
	if !f.some {
		f.b = append(f.b, '{')
	}
	return append(f.b, '}')
}

// appendJSON appends the decision as JSON.
func (e *decision) appendJSON(b []byte) []byte {
	f := fields{b: b}
	f.boolean("allowed", e.Allowed)
	f.text("action", e.Action)
	f.textIf("reason", e.Reason)
	f.textIf("rule", e.Rule)
	f.textIf("class", e.Class)
	f.set("unknown_plan", e.UnknownPlan)
	f.handling("degrade", e.Degrade)
	f.handling("mark", e.Mark)
	f.answer(e.Answer)
	f.textIf("missing", e.Missing)
	f.textIf("limit", e.Limit)
	f.given("capacity", e.Capacity)
	f.given("remaining", e.Remaining)
	f.waits(&e.Waits)
	f.set("degraded", e.Degraded)
	f.name("limits")
	f.b = append(f.b, '[')
	for i := range e.Limits {
		if i > 0 {
			f.b = append(f.b, ',')
		}
		f.b = e.Limits[i].appendJSON(f.b)
	}
	f.b = append(f.b, ']')
	f.text("explanation", e.Explanation)
	if e.opened != nil {
		f.text("token", e.Token)
		f.number("expires_in_ms", e.ExpiresInMS)
	}
	return f.end()
}

func (l *limitDecision) appendJSON(b []byte) []byte {
	f := fields{b: b}
	f.text("rule", l.Rule)
	f.text("limit", l.Limit)
	f.text("algorithm", l.Algorithm)
	f.text("role", l.Role)
	f.textIf("listed", l.Listed)
	f.set("override", l.Override)
	f.textIf("from", l.From)
	f.textIf("plan", l.Plan)
	f.number("cost", l.Cost)
	f.set("settles", l.Settles)
	f.numberIf("floor", l.Floor)
	f.set("ahead", l.Ahead)
	f.text("key", l.Key)
	f.boolean("allowed", l.Allowed)
	f.textIf("reason", l.Reason)
	f.set("shadow", l.Shadow)
	f.number("capacity", l.Capacity)
	f.given("remaining", l.Remaining)
	f.waits(&l.Waits)
	f.set("degraded", l.Degraded)
	f.set("overflow", l.Overflow)
	return f.end()
}

func (f *fields) waits(w *wire.Waits) {
	f.number("delay_ms", w.DelayMS)
	f.given("retry_after_ms", w.RetryAfterMS)
	f.given("retry_after_seconds", w.RetryAfterSeconds)
	f.given("reset_after_ms", w.ResetAfterMS)
}

func (f *fields) handling(name string, h *handling) {
	if h == nil {
		return
	}
	f.name(name)
	o := fields{b: f.b}
	o.text("rule", h.Rule)
	o.textIf("upstream", h.Upstream)
	o.numberIf("status", int64(h.Status))
	if len(h.RequestHeader) > 0 {
		o.texts("request_header", h.RequestHeader)
	}
	f.b = o.end()
}

func (f *fields) answer(a *answer) {
	if a == nil {
		return
	}
	f.name("answer")
	o := fields{b: f.b}
	o.number("status", int64(a.Status))
	o.texts("headers", a.Headers)
	o.textIf("body", a.Body)
	o.set("base64", a.Base64)
	o.numberIf("body_bytes", int64(a.BodyBytes))
	f.b = o.end()
}

// appendProblem appends a problem as JSON.
func appendProblem(b []byte, p *problem) []byte {
	f := fields{b: b}
	f.text("type", p.Type)
	f.text("title", p.Title)
	f.number("status", int64(p.Status))
	f.text("detail", p.Detail)
	f.textIf("field", p.Field)
	f.textIf("remedy", p.Remedy)
	return f.end()
}

const hexDigits = "0123456789abcdef"

// appendText appends a JSON text, in the bytes that package encoding/json would write.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	begin := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plainText[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			b = append(b, s[begin:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\b':
				b = append(b, '\\', 'b')
			case '\f':
				b = append(b, '\\', 'f')
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
			}
			i++
			begin = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(append(b, s[begin:i]...), `\ufffd`...)
			begin = i + size
		case r == '\u2028' || r == '\u2029': // line ends for readers of JavaScript
			b = append(append(b, s[begin:i]...), `\u202`...)
			b = append(b, hexDigits[r&0xf])
			begin = i + size
		}
		i += size
	}
	return append(append(b, s[begin:]...), '"')
}

// plainText are the characters that are written as they are. Characters of HTML are not, as in package encoding/json.
var plainText = func() (plain [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		plain[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return plain
}()
