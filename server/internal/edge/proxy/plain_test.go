package proxy

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A request that is not plain is left to package http. Only a plain one is written at once.
func TestOnlyPlainRequestsAreWrittenAtOnce(t *testing.T) {
	tr := newTransport(t, TransportOptions{})
	p, err := New(Options{Upstream: &url.URL{Scheme: "http", Host: "up.example"}, Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(r *http.Request)
		plain  bool
	}{
		"plain":                    {func(*http.Request) {}, true},
		"another method":           {func(r *http.Request) { r.Method = "PURGE" }, true},
		"a slash":                  {func(r *http.Request) { r.URL.Path = "/" }, true},
		"a query":                  {func(r *http.Request) { r.URL.RawQuery = "a=b" }, true},
		"a body":                   {func(r *http.Request) { r.ContentLength = 1 }, false},
		"a body of unknown length": {func(r *http.Request) { r.ContentLength = -1 }, false},
		"chunks":                   {func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }, false},
		"trailers":                 {func(r *http.Request) { r.Trailer = http.Header{"X-Sum": nil} }, false},
		"a tunnel":                 {func(r *http.Request) { r.Method = http.MethodConnect }, false},
		"no path":                  {func(r *http.Request) { r.URL.Path = "" }, false},
		"an asterisk":              {func(r *http.Request) { r.URL.Path = "*" }, false},
		"a relative path":          {func(r *http.Request) { r.URL.Path = "a" }, false},
		"two slashes":              {func(r *http.Request) { r.URL.Path = "//a" }, false},
		"an empty query":           {func(r *http.Request) { r.URL.ForceQuery = true }, false},
		"a space in the query":     {func(r *http.Request) { r.URL.RawQuery = "a b" }, false},
		"a line end in the method": {func(r *http.Request) { r.Method = "GET\r\n" }, false},
		"a space in the method":    {func(r *http.Request) { r.Method = "GET /x" }, false},
		"a space in the host":      {func(r *http.Request) { r.Host = "a b" }, false},
		"a line end in a header":   {func(r *http.Request) { r.Header["X-A"] = []string{"a\r\nX-B: b"} }, false},
		"a space in a header":      {func(r *http.Request) { r.Header["X A"] = []string{"a"} }, false},
		"an upgrade":               {func(r *http.Request) { r.Header["Upgrade"] = []string{"websocket"} }, false},
		"an expectation":           {func(r *http.Request) { r.Header["Expect"] = []string{"100-continue"} }, false},
		"connection options":       {func(r *http.Request) { r.Header["Connection"] = []string{"close, X-A"} }, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://example.com/a", nil) //nolint:noctx // it is not sent
		c.change(r)
		if head, ok := p.appendPlain(nil, r); ok != c.plain {
			t.Errorf("%s: plain %t, %q", name, ok, head)
		}
	}
}

// An answer with a control character, a folded line or a stray colon is left to package http. All other bytes pass.
func TestOnlyPlainAnswersAreReadAtOnce(t *testing.T) {
	plain := func(head string) bool {
		d := &directConn{in: bufio.NewReader(strings.NewReader(head))}
		if _, err := d.in.Peek(len(head)); err != nil {
			t.Fatal(err)
		}
		return d.plainAnswer(http.MethodGet) != nil
	}
	for c := range 256 {
		control := c < ' ' || c == 0x7f
		for at, want := range map[string]bool{
			"HTTP/1.1 200 a%cb\r\nContent-Length: 0\r\n\r\n":            !control,
			"HTTP/1.1 200 OK\r\nX-A: a%cb\r\nContent-Length: 0\r\n\r\n": !control || c == '\t',
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A:%c\r\n\r\n":    !control || c == '\t',
			"HTTP/1.1 200 OK\r\nX%cA: b\r\nContent-Length: 0\r\n\r\n":   tokenBytes[c] || c == ':',
			"HTTP/1.1 200 OK\r\n%cX-A: b\r\nContent-Length: 0\r\n\r\n":  tokenBytes[c],
			"HTTP/1.1 200 OK\r\nContent-Length%c: 0\r\n\r\n":            false,
			"HTTP/1.1 200 OK\r\nContent-Length: 1%c\r\n\r\n":            '0' <= c && c <= '9' || c == ' ' || c == '\t',
			"HTTP/1.1 20%c OK\r\nContent-Length: 0\r\n\r\n":             '0' <= c && c <= '9' && c != '4',
			"HTTP/1.1 200%cOK\r\nContent-Length: 0\r\n\r\n":             c == ' ',
			"HTTP/1.1%c200 OK\r\nContent-Length: 0\r\n\r\n":             c == ' ',
		} {
			head := strings.Replace(at, "%c", string([]byte{byte(c)}), 1)
			if got := plain(head); got != want {
				t.Errorf("%q is plain: %t", head, got)
			}
		}
	}
	for head, want := range map[string]bool{
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":                               true,
		"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n":                                  true,
		"HTTP/1.1 999 OK\r\nContent-Length: 0\r\n\r\n":                               true,
		"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nX-A:\r\n\r\n":                       true,
		"HTTP/1.1 200 OK\r\nContent-Length: 999999999999999999\r\n\r\n":              true,
		"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000000\r\n\r\n":             false,
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n":                              false,
		"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n":                              false,
		"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n":                                 false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n":          false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\ncontent-length: 1\r\n\r\n":          false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n": false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\ntransfer-encoding: x\r\n\r\n":       false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n":          false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTrailer: X-A\r\n\r\n":               false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nPragma: no-cache\r\n\r\n":           false,
		"HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n":                                          false,
		"HTTP/1.1 200 OK\r\n\r\n":                                                    false,
		"HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 0\r\n\r\n":                        false,
		"HTTP/1.1 200 OK\r\nX-A\r\nContent-Length: 0\r\n\r\n":                        false,
		"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n":               false,
		"HTTP/1.1 200 OK\nContent-Length: 0\n\r\n\r\n":                               false,
		"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n":                         false,
		"HTTP/1.1 199 OK\r\nContent-Length: 0\r\n\r\n":                               false,
		"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n":                       false,
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 0\r\n\r\n":                     false,
		"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n":                              false,
		"HTTP/1.1 20\r\nContent-Length: 0\r\n\r\n":                                   false,
		"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n":                               false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n":                                   false,
	} {
		if got := plain(head); got != want {
			t.Errorf("%q is plain: %t", head, got)
		}
	}
}
