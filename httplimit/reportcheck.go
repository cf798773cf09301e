package httplimit

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/internal/removal"
	"github.com/sluicehq/sluice/internal/spelling"
	"github.com/sluicehq/sluice/policy"
)

// Bounds of a report, in bytes. Servers in front of a Middleware have such bounds of their own.
const (
	mostTarget = 64 << 10
	mostHeader = 1 << 20
)

// Why a report is refused. The texts do not repeat what clients choose.
var (
	errNoMethod   = &policy.AttributeError{Attribute: "method", Problem: "is missing", Remedy: "have the gateway report it"}
	errTunnel     = &policy.AttributeError{Attribute: "method", Problem: "opens a tunnel, which no rule can limit", Remedy: "send another one than CONNECT"}
	errNoHost     = &policy.AttributeError{Attribute: "host", Problem: "is missing", Remedy: "send it, and have the gateway report it"}
	errOtherHost  = &policy.AttributeError{Attribute: "target", Problem: "names another host than the request", Remedy: "send only the path, such as /login"}
	errLongTarget = &policy.AttributeError{Attribute: "target", Problem: "is longer than 64 KiB", Remedy: "send a shorter one"}
	errControl    = &policy.AttributeError{Attribute: "target", Problem: "has a control character", Remedy: "send it without"}
	errEscape     = &policy.AttributeError{Attribute: "target", Problem: "has a percent sign that begins no escape", Remedy: "send it as %25"}
	errTwoSlashes = &policy.AttributeError{Attribute: "target", Problem: "begins with two slashes, behind which some services read a host", Remedy: "send one slash"}
	errLongHeader = &policy.AttributeError{Attribute: "header", Problem: "is longer than 1 MiB", Remedy: "send fewer or shorter ones"}
	errHeaderName = &policy.AttributeError{Attribute: "header", Problem: "has a name that is not a token in canonical form", Remedy: "send a name such as X-User"}
	errHeaderLine = &policy.AttributeError{Attribute: "header", Problem: "has a control character", Remedy: "send it without"}
	errHosts      = &policy.AttributeError{Attribute: "header", Problem: "names another host than the request", Remedy: "send one Host"}
	errOverride   = &policy.AttributeError{Attribute: "header", Problem: "replaces the method, path or host for some services", Remedy: "send the request without such headers"}
	errForgedMark = &policy.AttributeError{Attribute: "header", Problem: "is another spelling of a header that only rules set", Remedy: "send the request without it"}
	errUpgrade    = &policy.AttributeError{Attribute: "header", Problem: "requests a protocol in which requests would pass the rules", Remedy: "upgrade to websocket only"}
	errNominated  = &policy.AttributeError{Attribute: "header", Problem: "is named in Connection, and rules read it", Remedy: "send Connection without it"}
	errLength     = &policy.AttributeError{Attribute: "header", Problem: "has no clear length of the body", Remedy: "send one Content-Length, or Transfer-Encoding"}
)

// The bytes of paths. A plainPath byte is the same in url.URL.Path and in its escaped form. A validPath
// byte is allowed in an escaped path.
const (
	plainPath = 1 << iota
	validPath
)

var pathBytes = func() (set [256]uint8) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/$&+,:;=@") {
		set[c] = plainPath | validPath
	}
	for _, c := range []byte("!'()*[]%") {
		set[c] = validPath
	}
	return set
}()

// parseTarget parses the target of a request to a host. Unlike url.ParseRequestURI it keeps the escapes
// of a path that also has bytes without their escape: the service gets the path as it was sent.
func parseTarget(target, host string) (*url.URL, error) {
	switch {
	case target == "*":
		return &url.URL{Path: target}, nil
	case len(target) > mostTarget:
		return nil, errLongTarget
	case target == "" || target[0] != '/':
		var err error
		if target, err = originForm(target, host); err != nil {
			return nil, err
		}
	}
	if len(target) > 1 && (target[1] == '/' || target[1] == '\\') {
		return nil, errTwoSlashes
	}
	kinds, end := uint8(plainPath|validPath), -1
	for i := range len(target) {
		switch c := target[i]; {
		case c == '#':
			return nil, errFragment
		case c == ' ':
			return nil, errBlank
		case c < ' ' || c == 0x7f:
			return nil, errControl
		case end >= 0:
		case c == '?':
			end = i
		default:
			kinds &= pathBytes[c]
		}
	}
	u := &url.URL{Path: target}
	if end >= 0 {
		u.Path, u.RawQuery = target[:end], target[end+1:]
	}
	if kinds&plainPath != 0 {
		return u, nil
	}
	u.RawPath = u.Path
	if kinds&validPath == 0 {
		u.RawPath = escapePath(u.Path)
	}
	var err error
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return nil, errEscape
	}
	return u, nil
}

// originForm returns the path and query of an absolute target, which must name the host.
func originForm(target, host string) (string, error) {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return "", errTarget
	}
	named := rest
	if end := strings.IndexAny(rest, "/?#\\"); end >= 0 {
		named, rest = rest[:end], rest[end:]
	} else {
		rest = ""
	}
	if policy.CheckHost(named) != nil || spelling.Host(named) != spelling.Host(host) {
		return "", errOtherHost
	}
	if rest == "" || rest[0] != '/' {
		rest = "/" + rest
	}
	return rest, nil
}

// escapePath escapes the bytes of a path that are not allowed there. Escapes stay as they are.
func escapePath(path string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(path) + 16)
	for i := range len(path) {
		if c := path[i]; pathBytes[c] == 0 {
			b.WriteString(string([]byte{'%', hex[c>>4], hex[c&15]}))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// checkHeader checks the header of a report, and removes its Host. It returns the lines of headers that
// are another spelling of a header that rules read.
func (q *Report) checkHeader(d *Decider, r *http.Request, p *policy.Policy) (others http.Header, err error) {
	h, own := r.Header, reserved(p.ReservedHeaders())
	size := 0
	for name, lines := range h {
		if !isCanonical(name) {
			return nil, errHeaderName
		}
		for _, line := range lines {
			if size += len(name) + len(line); size > mostHeader {
				return nil, errLongHeader
			}
			if line != "" && (isSpace(line[0]) || isSpace(line[len(line)-1])) {
				return nil, errSpace
			}
			if !isLine(line) {
				return nil, errHeaderLine
			}
		}
		if replaces := overrides(name); replaces && (!q.MethodOverride || !overridesMethod(name)) {
			return nil, errOverride
		}
		if q.KeepsHeader && own.holds(name) && !slices.Contains(own, name) && d.reserved(r, p) != nil {
			return nil, errForgedMark
		}
		if isAlias(name, p.ReadHeaders()) {
			if others == nil {
				others = make(http.Header)
			}
			others[name] = lines
		}
	}
	if lines, ok := h["Host"]; ok {
		if len(lines) != 1 || lines[0] != q.Host {
			return nil, errHosts
		}
		delete(h, "Host") // as package http has it
	}
	if lines := h["Upgrade"]; len(lines) > 1 || len(lines) == 1 && !strings.EqualFold(lines[0], "websocket") {
		return nil, errUpgrade
	}
	if lines := h["Connection"]; len(lines) > 0 && nominates(lines, p.ValueHeaders()) {
		return nil, errNominated
	}
	return others, nil
}

// isLine reports whether a text can be the value of a header.
func isLine(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isCanonical reports whether the name of a header is a token in canonical form.
func isCanonical(name string) bool {
	upper := true
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z':
			if upper {
				return false
			}
		case 'A' <= c && c <= 'Z':
			if !upper {
				return false
			}
		case c != '-' && !isToken(name[i:i+1]):
			return false
		}
		upper = c == '-'
	}
	return name != ""
}

// replacing are headers from which some services take the path or host rather than from the request.
var replacing = reserved{"X-Original-Url", "X-Rewrite-Url", "X-Override-Url", "X-Http-Host-Override"}

// overrides reports whether some services believe a header rather than the request: for its method, path
// or host, in any spelling.
func overrides(name string) bool {
	return name[0] == 'X' && (replacing.holds(name) || overridesMethod(name))
}

// overridesMethod reports whether some services take the method from a header.
func overridesMethod(name string) bool { return removal.Of(name) == removal.Overriding }

// nominates reports whether a Connection header names one of the headers that rules read. Some gateways
// remove such a header before the service, and others do not.
func nominates(connection, read []string) bool {
	for _, line := range connection {
		for option := range strings.SplitSeq(line, ",") {
			option = strings.Trim(option, " \t")
			for _, name := range read {
				if strings.EqualFold(option, name) && removal.Of(name) != removal.PerHop {
					return true
				}
			}
		}
	}
	return false
}

// length returns the size of the body, -1 if it is unknown.
func (q *Report) length(h http.Header) (int64, error) {
	lines := h["Content-Length"]
	if len(lines) == 0 {
		if q.ContentLength > 0 {
			return q.ContentLength, nil
		}
		return -1, nil
	}
	n, err := strconv.ParseUint(lines[0], 10, 63)
	switch {
	case err != nil, len(lines) > 1, len(h["Transfer-Encoding"]) > 0:
		return 0, errLength
	case q.ContentLength > 0 && q.ContentLength != int64(n):
		return 0, errLength
	}
	return int64(n), nil
}
