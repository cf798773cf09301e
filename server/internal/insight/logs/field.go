package logs

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is what a field of a line has.
type kind uint8

const (
	ignored    kind = iota
	stamp           // a time, in any of the forms that stamps reads
	day             // a date of which clock is the time
	clock           // the time of a day
	seconds         // durations: what several fields have is added
	millis          //
	usecs           //
	nanos           //
	client          // an address, with a port or without
	peer            // an address for logs without a client
	method          //
	target          // path and query
	path            // a part of the target
	query           // a part of the target
	request         // method, target and protocol
	host            //
	hostIfNone      // a name of the server, for logs without a host
	status          //
	sent            //
	received        //
	value           // a member of Record.Values
	behind          // what follows in the combined format of Sluice
	action          // members of a Verdict
	rule            //
	limitName       //
	key             //
	cost            //
)

// has says which fields of a record a kind sets.
var has = map[kind]Fields{
	client: HasClient, peer: HasClient, method: HasMethod, target: HasTarget | HasQuery, path: HasTarget,
	query: HasTarget | HasQuery, request: HasMethod | HasTarget | HasQuery, host: HasHost, hostIfNone: HasHost, status: HasStatus,
	seconds: HasDuration, millis: HasDuration, usecs: HasDuration, nanos: HasDuration, sent: HasSent, received: HasReceived, action: HasVerdict,
}

// field is what is done with a field of a line.
type field struct {
	kind  kind
	index int // of a value
}

// Why a line is not a record.
const (
	noLine    = "a comment"
	noRequest = "no request in it"
	tooLong   = "the line is too long"
	otherLine = "it is not of the format"
	noTime    = "its time is not of a known form"
	noNumber  = "a number is not of a known form"
)

// set puts the text of a field into a record.
func (f field) set(rec *Record, text string, s *stamps) (why string) {
	ok := true
	switch f.kind {
	case ignored:
	case stamp:
		if rec.At, ok = s.parse(text); !ok {
			return noTime
		}
	case day:
		s.day = text
	case clock:
		if rec.At, ok = s.parse(s.day + "T" + text); !ok {
			return noTime
		}
	case seconds:
		ok = addDuration(rec, text, 6)
	case millis:
		ok = addDuration(rec, text, 3)
	case usecs:
		ok = addDuration(rec, text, 0)
	case nanos:
		ok = addDuration(rec, text, -3)
	case client:
		if text != "" && text != "-" {
			rec.Client = withoutPort(text)
		}
	case peer:
		if rec.Client == "" && text != "-" {
			rec.Client = withoutPort(text)
		}
	case method:
		rec.Method = unescape(text)
	case target, path:
		rec.Target = unescape(text)
	case query:
		if text = strings.TrimPrefix(text, "?"); text != "" && text != "-" {
			rec.Target += "?" + unescape(text)
		}
	case request:
		return setRequest(rec, text)
	case host:
		if text != "" && text != "-" {
			rec.Host = withoutDefaultPort(unescape(text))
		}
	case hostIfNone:
		if rec.Host == "" && text != "-" && text != "_" {
			rec.Host = unescape(text)
		}
	case status:
		if len(text) == 3 && text[0]-'0' < 10 && text[1]-'0' < 10 && text[2]-'0' < 10 {
			rec.Status = int(text[0]-'0')*100 + int(text[1]-'0')*10 + int(text[2]-'0')
			break
		}
		var n int64
		if n, ok = number(text); n > 0 && n < 1000 {
			rec.Status = int(n)
		}
	case sent:
		rec.Sent, ok = number(text)
	case received:
		rec.Received, ok = number(text)
	case value:
		if text != "-" {
			rec.Values[f.index] = unescape(text)
		}
	case behind:
		setBehind(rec, text)
	case action:
		rec.Verdict.Action = text
	case rule:
		rec.Verdict.Rule = unescape(text)
	case limitName:
		rec.Verdict.Limit = unescape(text)
	case key:
		rec.Verdict.Key = text
	case cost:
		rec.Verdict.Cost, ok = number(text)
	}
	if !ok {
		return noNumber
	}
	return ""
}

// addDuration adds a duration, whose unit is 10 to the power of exponent microseconds. A dash and a negative number
// say that it is unknown.
func addDuration(rec *Record, text string, exponent int) bool {
	if text == "-" || text == "" || text[0] == '-' {
		return true
	}
	n, ok := decimal(text, exponent)
	rec.Duration = max(rec.Duration, 0) + n
	return ok
}

// number reads a count of bytes or a status. A dash says that it is unknown, and Apache's for no byte.
func number(text string) (int64, bool) {
	if text == "-" || text == "" {
		return -1, true
	}
	return decimal(text, 0)
}

// decimal reads a number that is not negative, times 10 to the power of exponent. It drops further digits.
func decimal(text string, exponent int) (int64, bool) {
	var n int64
	fraction := false
	for i := range len(text) {
		c := text[i]
		if c == '.' && !fraction && i > 0 {
			fraction = true
			continue
		}
		if c -= '0'; c > 9 {
			f, err := strconv.ParseFloat(text, 64) // with an exponent
			if err != nil || !(f >= 0 && f < 1e12) {
				return 0, false
			}
			for ; exponent > 0; exponent-- {
				f *= 10
			}
			for ; exponent < 0; exponent++ {
				f /= 10
			}
			return int64(f), true
		}
		if fraction && exponent <= 0 {
			continue
		}
		if n > 1e17 {
			return 0, false
		}
		n = n*10 + int64(c)
		if fraction {
			exponent--
		}
	}
	for ; exponent > 0; exponent-- {
		if n > 1e17 {
			return 0, false
		}
		n *= 10
	}
	for ; exponent < 0; exponent++ {
		n /= 10
	}
	return n, text != ""
}

// setRequest reads a request line: method, target and protocol.
func setRequest(rec *Record, text string) (why string) {
	i := strings.IndexByte(text, ' ')
	j := strings.LastIndexByte(text, ' ')
	if i <= 0 {
		return noRequest
	}
	if j == i || !strings.HasPrefix(text[j+1:], "HTTP/") {
		j = len(text) // HTTP/0.9
	}
	rec.Method = text[:i]
	if len(rec.Method) > 24 || strings.IndexByte(rec.Method, '\\') >= 0 {
		return noRequest // bytes of another protocol
	}
	rec.Target = unescape(text[i+1 : j])
	if rec.Target == "" {
		return noRequest
	}
	if rec.Target[0] != '/' {
		if _, rest, found := strings.Cut(rec.Target, "://"); found {
			end := strings.IndexAny(rest, "/?")
			if end < 0 {
				end = len(rest)
			}
			rec.Host = withoutDefaultPort(rest[:end])
			if rec.Target = rest[end:]; rec.Target == "" || rec.Target[0] == '?' {
				rec.Target = "/" + rec.Target
			}
		}
	}
	return ""
}

// setBehind reads what the combined format of Sluice has behind the user agent.
func setBehind(rec *Record, text string) {
	for text != "" {
		var word string
		word, text, _ = strings.Cut(text, " ")
		name, v, found := strings.Cut(word, "=")
		if !found || v == "-" {
			continue
		}
		switch name {
		case "action":
			rec.Verdict.Action = v
		case "rule":
			rec.Verdict.Rule = v
		}
	}
}

// withoutPort removes the port of an address.
func withoutPort(text string) string {
	if text != "" && text[0] == '[' {
		if i := strings.IndexByte(text, ']'); i > 0 {
			return text[1:i]
		}
	}
	if i := strings.IndexByte(text, ':'); i >= 0 && strings.IndexByte(text[i+1:], ':') < 0 {
		return text[:i]
	}
	return text
}

// withoutDefaultPort removes the ports 80 and 443 of a host.
func withoutDefaultPort(text string) string {
	if h, found := strings.CutSuffix(text, ":80"); found {
		return h
	}
	return strings.TrimSuffix(text, ":443")
}

// header returns a header's name as Layout.Names has it.
func header(name string) Name {
	return Name{"header", http.CanonicalHeaderKey(name)}
}

// unescape resolves what servers write for quotes, control characters and bytes beyond ASCII: \xHH, \uHHHH and \".
func unescape(text string) string {
	i := strings.IndexByte(text, '\\')
	if i < 0 {
		return text
	}
	b := make([]byte, i, len(text))
	copy(b, text)
	for ; i < len(text); i++ {
		c := text[i]
		if c != '\\' || i+1 == len(text) {
			b = append(b, c)
			continue
		}
		i++
		switch c := text[i]; c {
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'v':
			b = append(b, '\v')
		case 'x', 'u':
			digits := 2
			if c == 'u' {
				digits = 4
			}
			n, err := strconv.ParseUint(text[i+1:min(i+1+digits, len(text))], 16, 32)
			if err != nil || i+digits >= len(text) {
				b = append(b, '\\', c)
				continue
			}
			if c == 'x' {
				b = append(b, byte(n))
			} else {
				b = utf8.AppendRune(b, rune(n))
			}
			i += digits
		default:
			b = append(b, c)
		}
	}
	return string(b)
}
