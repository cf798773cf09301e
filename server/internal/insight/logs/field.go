package logs

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is what a field of a line has.
type kind uint8

const (
	ignored    kind = iota
	stamp           // a time, in any of the forms that stamps reads; of several, the last kind counts
	fine            // a time with a fraction of a second
	day             // a date of which clock is the time
	clock           // the time of a day
	seconds         // durations; of several, the last kind counts, and what its fields have is added
	millis          //
	usecs           //
	nanos           //
	client          // an address, with a port or without
	clientPort      // an address with a port
	peer            // an address for logs without a client
	method          //
	target          // path and query
	path            // a part of the target
	query           // a part of the target
	request         // method, target and protocol
	address         // a request with the host in it
	host            //
	hostIfNone      // a name of the server, for logs without a host
	status          //
	sent            //
	received        //
	value           // a member of Record.Values
	action          // members of a Verdict
	limited         // an action in the words of limit_req
	rule            //
	took            // in microseconds
	aside           //
)

// has says which fields of a record a kind sets.
var has = map[kind]Fields{
	client: HasClient, clientPort: HasClient, peer: HasClient, method: HasMethod, target: HasTarget | HasQuery, path: HasTarget,
	query: HasTarget | HasQuery, request: HasMethod | HasTarget | HasQuery, address: HasMethod | HasTarget | HasQuery | HasHost,
	host: HasHost, hostIfNone: HasHost, status: HasStatus, sent: HasSent, received: HasReceived, action: HasVerdict, limited: HasVerdict,
	seconds: HasDuration, millis: HasDuration, usecs: HasDuration, nanos: HasDuration,
}

// exponents have the units of durations, as powers of ten of microseconds.
var exponents = [...]int{seconds: 6, millis: 3, usecs: 0, nanos: -3}

// isTime and isDuration say what the beginning of a request is computed from.
func (k kind) isTime() bool     { return k >= stamp && k <= clock }
func (k kind) isDuration() bool { return k >= seconds && k <= nanos }

// field is what is done with a field of a line.
type field struct {
	kind  kind
	index int // of a value
}

// state is what the lines of a file have in common.
type state struct {
	stamps
	escapes  byte // what escapes a byte in a text: a backslash, a percent sign, or 0 for nothing
	requests byte // the same in request lines
	ends     bool // times are when requests ended
}

// unknownTime is the time of a record before it is set.
const unknownTime = math.MinInt64

// limitReq are the actions of nginx's limit_req.
var limitReq = map[string]string{"PASSED": "allow", "DELAYED": "delay", "REJECTED": "deny"}

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
func (f field) set(rec *Record, text string, s *state) (why string) {
	if text == "-" || text == "" { // the server does not say
		if f.kind == stamp || f.kind == fine {
			return noTime
		}
		return ""
	}
	ok := true
	switch f.kind {
	case stamp, fine:
		if rec.At, ok = s.parse(text); !ok {
			return noTime
		}
	case day:
		s.day = text
	case clock:
		if rec.At, ok = s.parse(s.day + "T" + text + "Z"); !ok {
			return noTime
		}
	case seconds, millis, usecs, nanos:
		ok = addDuration(rec, text, exponents[f.kind])
	case client:
		rec.Client = withoutPort(text)
	case clientPort:
		rec.Client = strings.Trim(text[:max(strings.LastIndexByte(text, ':'), 0)], "[]")
		rec.Client = rec.Client[strings.LastIndexByte(rec.Client, ' ')+1:]
	case peer:
		if rec.Client == "" {
			rec.Client = withoutPort(text)
		}
	case method:
		rec.Method = text
	case target, path:
		if text = unescape(text, s.requests); text[0] != '/' {
			rec.Host, text = absolute(rec.Host, text)
		}
		rec.Target = text + rec.Target
	case query:
		if text = strings.TrimPrefix(unescape(text, s.requests), "?"); text != "" {
			rec.Target += "?" + text
		}
	case request, address:
		return setRequest(rec, unescape(text, s.requests))
	case host:
		rec.Host = withoutDefaultPort(unescape(text, s.escapes))
	case hostIfNone:
		if rec.Host == "" && text != "_" {
			rec.Host = unescape(text, s.escapes)
		}
	case status:
		var n int64
		if n, ok = decimal(text, 0); n < 1000 {
			rec.Status = int(n)
		}
	case sent:
		rec.Sent, ok = decimal(text, 0)
	case received:
		rec.Received, ok = decimal(text, 0)
	case value:
		rec.Values[f.index] = unescape(text, s.escapes)
	case action:
		rec.Verdict.Action = text
	case limited:
		text, rec.Verdict.Dry = strings.CutSuffix(text, "_DRY_RUN")
		rec.Verdict.Action = limitReq[text]
	case rule:
		rec.Verdict.Rule = unescape(text, s.escapes)
	case took:
		rec.Verdict.Took, ok = decimal(text, 0)
	case aside:
		rec.Verdict.Aside = rec.Verdict.Aside || text == "true"
	}
	if !ok {
		return noNumber
	}
	return ""
}

// addDuration adds a duration, whose unit is 10 to the power of exponent microseconds. A negative number says that it
// is unknown.
func addDuration(rec *Record, text string, exponent int) bool {
	if text[0] == '-' {
		return true
	}
	n, ok := decimal(text, exponent)
	rec.Duration = max(rec.Duration, 0) + n
	return ok
}

// decimal reads a number that is not negative, times 10 to the power of exponent, which is -3 to 6. It drops further digits.
func decimal(text string, exponent int) (int64, bool) {
	if n, err := strconv.Atoi(text); err == nil && exponent == 0 {
		return int64(n), n >= 0
	}
	whole, fraction, found := strings.Cut(text, ".")
	missing := exponent
	if found && whole != "" && exponent > 0 {
		whole, missing = whole+(fraction + "000000")[:exponent], 0
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || strings.Trim(fraction, digits) != "" {
		f, err := strconv.ParseFloat(text, 64) // with an exponent
		return int64(f * math.Pow10(exponent)), err == nil && f >= 0 && f < 1e12
	}
	for ; missing > 0 && n < math.MaxInt64/10; missing-- {
		n *= 10
	}
	if missing < 0 {
		n /= 1000
	}
	return n, n >= 0 && missing <= 0
}

// setRequest reads a request line: method, target and protocol.
func setRequest(rec *Record, text string) (why string) {
	i := strings.IndexByte(text, ' ')
	j := len(text) - len(" HTTP/1.1")
	if j < 0 || text[j] != ' ' {
		j = strings.LastIndexByte(text, ' ')
	}
	if i <= 0 || i > 24 || text[0] < 'A' || text[0] > 'z' {
		return noRequest // or bytes of another protocol
	}
	if j == i || !strings.HasPrefix(text[j+1:], "HTTP/") {
		j = len(text) // HTTP/0.9
	}
	rec.Method, rec.Target = text[:i], text[i+1:j]
	if rec.Target != "" && rec.Target[0] != '/' {
		rec.Host, rec.Target = absolute(rec.Host, rec.Target)
	}
	return ""
}

// absolute returns the host and the rest of a target with a scheme, such as http://shop.example/. The host is the one
// before if the target has none.
func absolute(before, target string) (host, rest string) {
	_, rest, found := strings.Cut(target, "://")
	if !found {
		return before, target
	}
	end := strings.IndexAny(rest+"/", "/?")
	if host, rest = rest[:end], rest[end:]; rest == "" || rest[0] == '?' {
		rest = "/" + rest
	}
	return withoutDefaultPort(host), rest
}

// withoutPort removes the port of an address, and what syslog writes before it.
func withoutPort(text string) string {
	text = text[strings.LastIndexByte(text, ' ')+1:]
	colon := strings.IndexByte(text, ':')
	switch {
	case colon < 0 || text[0] != '[' && strings.LastIndexByte(text, ':') != colon: // no port, or an address of version 6
		return text
	case text[0] == '[':
		host, _, _ := strings.Cut(text[1:], "]")
		return host
	}
	return text[:colon]
}

// withoutDefaultPort removes the ports 80 and 443 of a host.
func withoutDefaultPort(text string) string {
	if h, found := strings.CutSuffix(text, ":80"); found {
		return h
	}
	return strings.TrimSuffix(text, ":443")
}

// unescape resolves what servers write for quotes, control characters and bytes beyond ASCII: \xHH, \uHHHH and \", or %HH, or #HH.
func unescape(text string, escape byte) string {
	if escape == 0 || strings.IndexByte(text, escape) < 0 {
		return text
	}
	b := make([]byte, 0, len(text))
	for {
		i := strings.IndexByte(text, escape)
		if i < 0 || i+1 == len(text) {
			return string(append(b, text...))
		}
		b, text = append(b, text[:i]...), text[i:]
		quoted, rest := text, ""
		if escape != '\\' {
			n := min(3, len(text))
			quoted, rest = `\x`+text[1:n], text[n:]
		}
		c, wide, tail, err := strconv.UnquoteChar(quoted, '"')
		switch {
		case err == nil && wide:
			b, text = utf8.AppendRune(b, c), tail+rest
		case err == nil:
			b, text = append(b, byte(c)), tail+rest
		case escape == '\\':
			b, text = append(b, text[1]), text[2:]
		default:
			b, text = append(b, escape), text[1:]
		}
	}
}
