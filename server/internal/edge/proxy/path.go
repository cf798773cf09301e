package proxy

import (
	"net/http"
	"strconv"
	"strings"
)

// climbs reports whether services may find a segment of two dots in an escaped path: decoded once or twice,
// with backslashes or slashes, with or without parameters. Behind the path of an upstream such a segment
// reaches what is not below that path, and rules match "/../base/login" as /base/login, not as /login.
func climbs(escaped string) bool {
	if !strings.ContainsAny(escaped, ".%") {
		return false
	}
	for range 3 {
		for s := range strings.FieldsFuncSeq(escaped, func(c rune) bool { return c == '/' || c == '\\' }) {
			if s, _, _ = strings.Cut(s, ";"); s == ".." {
				return true
			}
		}
		if decoded := decode(escaped); decoded != escaped {
			escaped = decoded
		} else {
			return false
		}
	}
	return false
}

// decode decodes what is percent-encoded, and keeps other percent signs.
func decode(escaped string) string {
	out := make([]byte, 0, len(escaped))
	for i := 0; i < len(escaped); i++ {
		if escaped[i] == '%' && i+2 < len(escaped) {
			if c, err := strconv.ParseUint(escaped[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(c))
				i += 2
				continue
			}
		}
		out = append(out, escaped[i])
	}
	return string(out)
}

// isOneLine reports whether the target of a request has one meaning in the request line of HTTP/1.1. The server
// passes queries with spaces from HTTP/2, and targets without a path, such as "x:admin". The transport checks the
// method.
func isOneLine(r *http.Request) bool {
	return r.URL.Opaque == "" && strings.IndexByte(r.URL.RawQuery, ' ') < 0
}
