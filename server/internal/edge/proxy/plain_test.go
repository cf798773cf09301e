package proxy

import (
	"net/http"
	"net/http/httptest"
	"net/url"
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
		"another upgrade":          {func(r *http.Request) { r.Header["Upgrade"] = []string{"h2c"} }, true},
		"an expectation":           {func(r *http.Request) { r.Header["Expect"] = []string{"100-continue"} }, false},
		"connection options":       {func(r *http.Request) { r.Header["Connection"] = []string{"close, X-A"} }, true},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://example.com/a", nil) //nolint:noctx // it is not sent
		c.change(r)
		if head, ok := p.appendPlain(nil, http.Header{}, r); ok != c.plain {
			t.Errorf("%s: plain %t, %q", name, ok, head)
		}
	}
}
