package spoe

import (
	"bytes"
	"net/netip"
	"strings"

	"github.com/sluicehq/sluice/httplimit"
)

// The problems of messages. They do not repeat what clients choose.
const (
	noMessage   = "the frame has no message; the agent's spoe-message must have an event"
	twoMessages = "the frame has several messages; the agent must have one for each event"
	unreadable  = "the message cannot be read"
	noMethod    = "the message has no method; add the argument method=method"
	noTarget    = "the message has no target; add the argument target=url"
	noHeaders   = "the message has no headers; add the argument headers=req.hdrs_bin"
	noSource    = "the message has no source; add the argument src=src"
	badHeaders  = "the headers are not a text of req.hdrs, nor a list of req.hdrs_bin"
	badSource   = "the source is not an address; give the argument src=src"
	unknownName = "the message has an unknown argument; the arguments are method, target, headers, src and host"
	repeated    = "the message has an argument twice"
)

// readMessage makes a report of the request that a message describes. The report keeps no part of the payload. The
// problem is empty if the message is valid.
func readMessage(payload []byte) (q httplimit.Report, problem string) {
	q.KeepsHeader = true // the file removes headers by their names
	d := decoder{rest: payload}
	if len(payload) == 0 {
		return q, noMessage
	}
	d.text() // the name is the administrator's
	var headers value
	seen := map[string]bool{}
	var hasHeaders bool
	for range d.byte() {
		name := string(d.text())
		v := d.value()
		if d.bad {
			return q, unreadable
		}
		if seen[name] {
			return q, repeated
		}
		seen[name] = true
		switch name {
		case "method":
			q.Method = string(v.text)
		case "target":
			q.Target = string(v.text)
		case "host":
			q.Host = string(v.text)
		case "headers":
			headers, hasHeaders = v, v.kind == kindString || v.kind == kindBinary
		case "src":
			switch {
			case v.addr.IsValid():
				q.RemoteAddr = v.addr.String()
			case v.kind == kindString:
				addr, err := netip.ParseAddr(string(v.text))
				if err != nil {
					return q, badSource
				}
				q.RemoteAddr = addr.String()
			case v.kind != kindNull: // a client of a Unix socket has no address
				return q, badSource
			}
		default:
			return q, unknownName
		}
	}
	switch {
	case d.bad:
		return q, unreadable
	case len(d.rest) > 0:
		return q, twoMessages
	case !seen["method"]:
		return q, noMethod
	case !seen["target"]:
		return q, noTarget
	case !hasHeaders:
		return q, noHeaders
	case !seen["src"]:
		return q, noSource
	case !readHeaders(&q, &headers):
		return q, badHeaders
	}
	if lines := q.Header["Host"]; q.Host == "" && len(lines) == 1 {
		q.Host = lines[0]
	}
	return q, ""
}

// readHeaders reads the headers of a request: lines of text, or names and values with their lengths.
func readHeaders(q *httplimit.Report, v *value) bool {
	if v.kind == kindString {
		return readLines(q, v.text)
	}
	d := decoder{rest: v.text}
	for {
		name, line := d.text(), d.text()
		switch {
		case d.bad:
			return false
		case len(name) == 0 && len(line) == 0:
			return len(d.rest) == 0
		}
		q.Add(string(name), string(line))
	}
}

// readLines reads the headers as lines, up to an empty line.
func readLines(q *httplimit.Report, text []byte) bool {
	for len(text) > 0 {
		line, rest, ok := bytes.Cut(text, []byte("\r\n"))
		if !ok {
			return false
		}
		if text = rest; len(line) == 0 {
			return len(rest) == 0
		}
		name, value, ok := strings.Cut(string(line), ":")
		if !ok {
			return false
		}
		q.Add(name, strings.TrimPrefix(value, " "))
	}
	return true
}
