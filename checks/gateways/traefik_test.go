package gateways

import (
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

// traefik starts a program that does what Traefik v3 does with the file: its ForwardAuth sends the request that
// Traefik documents. Traefik itself cannot be installed by go install, because its go.mod replaces modules.
func (w *world) traefik() {
	w.Helper()
	text, err := os.ReadFile(w.file("traefik.yml", nil))
	if err != nil {
		w.Fatal(err)
	}
	setting := func(pattern string) string {
		w.Helper()
		m := regexp.MustCompile(`(?m)^[ -]+` + pattern + `$`).FindSubmatch(text)
		if m == nil {
			w.Fatalf("traefik.yml has no %s", pattern)
		}
		return string(m[1])
	}
	address, copied := setting(`address: (\S+)`), strings.Split(setting(`authResponseHeaders: \[(.*)\]`), ", ")
	if setting(`trustForwardHeader: (\w+)`) != "false" {
		w.Fatal("the example believes what clients write")
	}
	target, err := url.Parse(setting(`url: (\S+)`))
	if err != nil {
		w.Fatal(err)
	}
	client := &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w.Cleanup(client.CloseIdleConnections)
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { // which passes the target on as it came
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		r.Out.URL.RawQuery = r.In.URL.RawQuery
		r.Out.Host = r.In.Host
	}}
	ln, err := net.Listen("tcp", w.gateway)
	if err != nil {
		w.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		res, err := client.Do(forwarded(r, address))
		if err != nil {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer res.Body.Close()
		if res.StatusCode < 200 || res.StatusCode >= 300 {
			maps.Copy(rw.Header(), res.Header)
			rw.WriteHeader(res.StatusCode)
			_, _ = io.Copy(rw, res.Body) // the client may be gone
			return
		}
		for _, name := range copied {
			name = http.CanonicalHeaderKey(name)
			r.Header.Del(name)
			if lines := res.Header[name]; len(lines) > 0 {
				r.Header[name] = lines
			}
		}
		pass.ServeHTTP(rw, r)
	})}
	go func() { _ = server.Serve(ln) }()     // until it is closed
	w.Cleanup(func() { _ = server.Close() }) // the test has ended
}

// forwarded returns the request that ForwardAuth sends, without trustForwardHeader.
func forwarded(r *http.Request, address string) *http.Request {
	q, err := http.NewRequestWithContext(r.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		panic(err) // the address is of the file
	}
	q.Header = r.Header.Clone()
	for _, line := range r.Header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			q.Header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Te", "Trailers", "Transfer-Encoding", "Upgrade"} {
		q.Header.Del(name)
	}
	// The entry point sets this header, unless the peer is trusted.
	peer, _, _ := net.SplitHostPort(r.RemoteAddr) // a server has it
	q.Header.Set("X-Real-Ip", peer)
	q.Header.Set("X-Forwarded-For", peer)
	q.Header.Set("X-Forwarded-Method", r.Method)
	q.Header.Set("X-Forwarded-Proto", "http")
	q.Header.Set("X-Forwarded-Host", r.Host)
	q.Header.Set("X-Forwarded-Uri", r.URL.RequestURI())
	return q
}
