package proxy

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// lines returns the lines of a head, the headers sorted.
func lines(head string) []string {
	all := strings.SplitAfter(head, "\r\n")
	slices.Sort(all[1:])
	return all
}

// FuzzHeads compares the heads of requests with the heads that package http writes. A head that is not written is left to
// package http.
func FuzzHeads(f *testing.F) {
	f.Add("GET", "example.com", "http://up.example/a%2Fb/../c?d=e&f", "X-A: 1\nx-a: 2\nCookie: a=b; c=d")
	f.Add("POST", "EXAMPLE.com:80", "http://up.example//", "User-Agent: one\nUser-Agent: two\nContent-Length: 5")
	f.Add("PUT", "[::1]:8080", "http://up.example?", "User-Agent:\nHost: other\nTrailer: x\nX-Tab:\ta\tb ")
	f.Add("OPTIONS", "exämple.com", "http://up.example/*", "X-Bell: \a\nX-Nul: \x00\nX-High: \xff\nX Space: 1")
	f.Add("G T", "a b", "http://up.example/\x01", "Transfer-Encoding: chunked\nTe: trailers\n: empty")
	f.Fuzz(func(t *testing.T, method, host, target, headers string) {
		u, err := url.Parse(target)
		if err != nil || u.Scheme != "http" || u.Opaque != "" {
			return
		}
		r := &http.Request{Method: method, URL: u, Host: host, Header: http.Header{"User-Agent": {""}}}
		for line := range strings.SplitSeq(headers, "\n") {
			name, value, _ := strings.Cut(line, ":")
			r.Header[http.CanonicalHeaderKey(name)] = append(r.Header[http.CanonicalHeaderKey(name)], value)
		}
		got, ok := appendHead(nil, r)
		if !ok {
			return
		}
		var want bytes.Buffer
		if err := r.Write(&want); err != nil {
			t.Fatalf("package http refuses what was written as %q: %v", got, err)
		}
		if !slices.Equal(lines(string(got)), lines(want.String())) {
			t.Errorf("%q, want %q", got, want.String())
		}
		if again, err := http.ReadRequest(newReader(got)); err != nil || again.Method != method || strings.Count(string(got), "\r\n\r\n") != 1 {
			t.Errorf("%q: %v", got, err)
		}
	})
}
