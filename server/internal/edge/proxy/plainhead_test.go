package proxy

import (
	"bytes"
	"net/http"
	"net/netip"
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

// FuzzPlainHeads compares the heads that are written at once with the heads that package http writes of outbound requests. A
// head that is not written is left to package http.
func FuzzPlainHeads(f *testing.F) {
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"GET /a%2Fb/../c;d?e=f&g=%zz HTTP/1.1\r\nHost: EXAMPLE.com.:80\r\nUser-Agent: a\r\nUser-Agent: b\r\nCookie: c=d\r\nX-Real-Ip: 1.2.3.4\r\n\r\n",
		"POST //x?? HTTP/1.1\r\nHost: example.com\r\nConnection: close, x-a\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n",
		"PUT /? HTTP/1.0\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\nProxy-Connection: close\r\nTe: gzip, trailers\r\nTe: deflate\r\n\r\n",
		"GET http://other.example/x HTTP/1.1\r\nHost: [::1]:80\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\nX_Forwarded_Host: a\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive, user-agent, x-a, X-Forwarded-For\r\nX-A: 1\r\nX-B: 2\r\nUser-Agent: c\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a\r\nX-Http-Method-Override: PUT\r\n\r\n",
		"GET /\x80 HTTP/1.1\r\nHost: a\r\nX-Forwarded-For:  192.0.2.1 \r\nUpgrade: h2c\r\nExpect: x\r\nTrailer: y\r\n\r\n",
	} {
		f.Add([]byte(head), false, false, false, false)
		f.Add([]byte(head), true, true, false, true)
		f.Add([]byte(head), true, false, true, false)
		f.Add([]byte(head), false, false, true, true)
	}
	tr := NewTransport(TransportOptions{})
	f.Cleanup(tr.Close)
	f.Fuzz(func(t *testing.T, head []byte, trusted, upstreamHost, socket, below bool) {
		in, err := http.ReadRequest(newReader(head))
		if err != nil || in.ContentLength != 0 || !isOneLine(in) {
			return
		}
		in.RemoteAddr = "192.0.2.7:1234"
		if socket {
			in.RemoteAddr = "@" // of a peer at a Unix socket
		}
		up := &url.URL{Scheme: "http", Host: "up.example"}
		if below {
			up.Path, up.RawQuery = "/b%61se/", "own=1"
		}
		p, err := New(Options{
			Upstream: up, Transport: tr, UpstreamHost: upstreamHost,
			Trusted: func(netip.Addr) bool { return trusted },
		})
		if err != nil {
			t.Fatal(err)
		}
		got, ok := p.appendPlain(nil, http.Header{}, in)
		if !ok {
			return
		}
		if len(in.Header["Upgrade"]) > 0 {
			delete(in.Header, "Upgrade") // as ServeHTTP does with an upgrade that does not pass
		}
		var want bytes.Buffer
		if err := p.outbound(t.Context(), in).Write(&want); err != nil {
			t.Fatalf("package http refuses what was written as %q: %v", got, err)
		}
		if !slices.Equal(lines(string(got)), lines(want.String())) {
			t.Errorf("%q, want %q", got, want.String())
		}
		if again, err := http.ReadRequest(newReader(got)); err != nil || again.Method != in.Method || strings.Count(string(got), "\r\n\r\n") != 1 {
			t.Errorf("package http does not read the head as one request: %q: %v", got, err)
		}
	})
}
