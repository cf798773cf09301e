package proxy

import "net/http"

// appendHead appends the head of a request, as http.Request.Write writes it, except for the order of the headers. It
// returns false for a request that needs more care: package http then refuses it, or writes it.
func appendHead(b []byte, r *http.Request) ([]byte, bool) {
	target := r.URL.RequestURI()
	if !isToken(r.Method) || !isVisible(target) || !isPlainHost(r.Host) {
		return b, false
	}
	b = append(b, r.Method...)
	b = append(b, ' ')
	b = append(b, target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, r.Host...)
	b = append(b, "\r\n"...)
	for name, values := range r.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		case "User-Agent":
			if len(values) == 0 || values[0] == "" {
				continue
			}
			values = values[:1]
		}
		if !isToken(name) {
			return b, false
		}
		for _, value := range values {
			if !isFieldValue(value) {
				return b, false
			}
			b = appendField(b, name, value)
		}
	}
	return appendLength(b, r.Method), true
}

// appendLength ends the head of a request without a body. Many services expect a length with these methods.
func appendLength(b []byte, method string) []byte {
	if takesBody(method) {
		b = append(b, "Content-Length: 0\r\n"...)
	}
	return append(b, "\r\n"...)
}

// tokenBytes are the bytes of methods and header names (RFC 9110, 5.6.2), and hostBytes the bytes of plain hosts.
var (
	tokenBytes = bytesOf("!#$%&'*+-.^_`|~")
	hostBytes  = bytesOf("-._:[]")
)

// bytesOf returns the set of letters, digits and some other bytes.
func bytesOf(others string) (set [256]bool) {
	for c := range set {
		set[c] = '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' && c < 0x80
	}
	for i := range len(others) {
		set[others[i]] = true
	}
	return set
}

func isToken(s string) bool { return consists(s, &tokenBytes) }

// isPlainHost reports whether package http would write a host as it is.
func isPlainHost(s string) bool { return consists(s, &hostBytes) }

func consists(s string, of *[256]bool) bool {
	for i := range len(s) {
		if !of[s[i]] {
			return false
		}
	}
	return s != ""
}

// isVisible reports whether a target has no control character and no space.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s != ""
}

// isFieldValue reports whether a header can have a value (RFC 9110, 5.5).
func isFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
