package api

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// plain reads the JSON of questions, each byte once. It takes only what nearly all callers send: known fields, each once,
// and texts without escapes. At anything else it gives up, and encoding/json reads the whole again and finds what is
// wrong, if anything is. So plain never refuses a question, and never reads one in another way.
type plain struct {
	text string
	at   int
	off  bool // it has given up
}

// giveUp makes plain take nothing more.
func (p *plain) giveUp() { p.off = true }

// space skips white space.
func (p *plain) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// next returns the next byte that is not white space, zero at the end. It stays the next one.
func (p *plain) next() byte {
	p.space()
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// take skips a byte if it is next, and reports whether it was.
func (p *plain) take(c byte) bool {
	if p.next() != c {
		return false
	}
	p.at++
	return true
}

// want skips a byte that must be next.
func (p *plain) want(c byte) {
	if !p.take(c) {
		p.giveUp()
	}
}

// ended reports whether nothing is left, and nothing was wrong.
func (p *plain) ended() bool { return !p.off && p.next() == 0 && p.at == len(p.text) }

// string reads a text.
func (p *plain) string() string {
	p.want('"')
	ascii := true
	for i := p.at; i < len(p.text) && !p.off; i++ {
		switch c := p.text[i]; {
		case c == '"':
			s := p.text[p.at:i]
			p.at = i + 1
			if !ascii && !utf8.ValidString(s) {
				p.giveUp()
			}
			return s
		case c == '\\' || c < ' ':
			p.giveUp()
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	p.giveUp()
	return ""
}

// integer reads a whole number without an exponent.
func (p *plain) integer() *int64 {
	p.space()
	begin := p.at
	if p.at < len(p.text) && p.text[p.at] == '-' {
		p.at++
	}
	first := p.at
	for p.at < len(p.text) && '0' <= p.text[p.at] && p.text[p.at] <= '9' {
		p.at++
	}
	n, err := strconv.ParseInt(p.text[begin:p.at], 10, 64)
	if err != nil || p.text[first] == '0' && p.at > first+1 {
		p.giveUp()
	}
	return &n // what follows a number, such as a fraction, is not a comma
}

// boolean reads true or false.
func (p *plain) boolean() bool {
	p.space()
	rest := p.text[p.at:]
	switch {
	case strings.HasPrefix(rest, "true"):
		p.at += len("true")
		return true
	case strings.HasPrefix(rest, "false"):
		p.at += len("false")
	default:
		p.giveUp()
	}
	return false
}

// list reads a list by reading each element.
func (p *plain) list(element func()) {
	p.want('[')
	if p.off || p.take(']') {
		return
	}
	for {
		element()
		if p.off || p.take(']') {
			return
		}
		p.want(',')
	}
}

// object reads an object by reading each field.
func (p *plain) object(field func(name string)) {
	p.want('{')
	if p.off || p.take('}') {
		return
	}
	for {
		name := p.string()
		p.want(':')
		if p.off {
			return
		}
		field(name)
		if p.take('}') {
			return
		}
		p.want(',')
	}
}

// request reads one question.
func (p *plain) request(q *request) {
	var seen uint16
	p.object(func(name string) {
		var field uint16
		switch name {
		case "method":
			field, q.Method = 1, p.string()
		case "host":
			field, q.Host = 1<<1, p.string()
		case "path":
			field, q.Path = 1<<2, p.string()
		case "client_ip":
			field, q.ClientIP = 1<<3, p.string()
		case "headers":
			field, q.Headers = 1<<4, p.named()
		case "cookies":
			field, q.Cookies = 1<<5, p.named()
		case "query":
			field, q.Query = 1<<6, p.named()
		case "attributes":
			field, q.Attributes = 1<<7, p.single()
		case "claims":
			field, q.Claims = 1<<8, p.single()
		case "marked":
			field, q.Marked = 1<<9, p.boolean()
		case "rule":
			field, q.Rule = 1<<10, p.string()
		case "key":
			field, q.Key = 1<<11, p.texts()
		case "cost":
			field, q.Cost = 1<<12, p.integer()
		case "max_wait_ms":
			field, q.MaxWaitMS = 1<<13, p.integer()
		}
		if field == 0 || seen&field != 0 {
			p.giveUp()
		}
		seen |= field
	})
}

// texts reads a text or a list of texts.
func (p *plain) texts() texts {
	if p.next() != '[' {
		return texts{p.string()}
	}
	t := texts{}
	p.list(func() { t = append(t, p.string()) })
	return t
}

// named reads an object whose values are texts or lists of texts.
func (p *plain) named() named {
	n := named{}
	p.object(func(name string) { n[name] = append(n[name], p.texts()...) })
	return n
}

// single reads an object of texts.
func (p *plain) single() map[string]string {
	m := map[string]string{}
	p.object(func(name string) { m[name] = p.string() })
	return m
}
