package gateways

import (
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// documented is a program that does what Traefik documents about the files of the example.
type documented struct {
	address    string         // of the service behind the entry point of ForwardAuth
	copied     []string       // authResponseHeaders
	removed    []string       // customRequestHeaders that are empty
	trust      bool           // trustForwardHeader
	trusted    []string       // trustedIPs
	websocket  *regexp.Regexp // of the rule of WebSockets
	client     http.Client
	downstream *httputil.ReverseProxy
}

// documentedTraefik starts such a program.
func (w *world) documentedTraefik() {
	w.Helper()
	var text []byte
	for _, name := range []string{"traefik.yml", "traefik-static.yml"} {
		part, err := os.ReadFile(w.file(name, nil))
		if err != nil {
			w.Fatal(err)
		}
		text = append(text, part...)
	}
	setting := func(pattern string) string {
		w.Helper()
		m := regexp.MustCompile(`(?m)^[ -]+` + pattern + `$`).FindSubmatch(text)
		if m == nil {
			w.Fatalf("the files have no %s", pattern)
		}
		return string(m[1])
	}
	target, err := url.Parse(setting(`url: (\S+)`))
	if err != nil {
		w.Fatal(err)
	}
	_, decisions, _ := strings.Cut(string(text), "serversTransport: decisions")
	if decisions = regexp.MustCompile(`url: (\S+)`).FindStringSubmatch(decisions)[1]; setting(`address: http://(\S+)/auth`) != setting(`decisions:\n +address: (\S+)`) {
		w.Fatal("ForwardAuth does not call the entry point for decisions")
	}
	patience, err := time.ParseDuration(setting(`forwardingTimeouts: {dialTimeout: 1s, responseHeaderTimeout: (\w+)}`))
	if err != nil {
		w.Fatal(err)
	}
	setting(`middlewares: (\[described, sluice\])`)
	setting(`middlewares: (\[described, sluice, websocket\])`)
	setting(`customRequestHeaders: ({Upgrade: websocket})`)
	d := &documented{
		address:   decisions + "/auth",
		copied:    strings.Split(setting(`authResponseHeaders: \[(.*)\]`), ", "),
		removed:   strings.Split(setting(`customRequestHeaders: {(.*): ""}`), `: "", `),
		trust:     setting(`trustForwardHeader: (\w+)`) == "true",
		websocket: regexp.MustCompile(setting("rule: .*HeaderRegexp\\(`Upgrade`, `(.*)`\\)")),
		client:    http.Client{Transport: &http.Transport{ResponseHeaderTimeout: patience}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		downstream: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { // which passes the target on as it came
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			r.Out.Host = r.In.Host
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
		}},
	}
	if strings.Contains(string(text), "trustedIPs: [") && d.trust {
		d.trusted = strings.Split(setting(`forwardedHeaders: {trustedIPs: \[(.*)\]}`), ", ")
	}
	w.Cleanup(d.client.CloseIdleConnections)
	ln, err := net.Listen("tcp", w.gateway)
	if err != nil {
		w.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: d}
	go func() { _ = server.Serve(ln) }()     // until it is closed
	w.Cleanup(func() { _ = server.Close() }) // the test has ended
}

// ServeHTTP handles a request of a client.
func (d *documented) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer, _, _ := net.SplitHostPort(r.RemoteAddr) // a server has it
	if !slices.Contains(d.trusted, peer) {        // the entry point
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
				r.Header.Del(name)
			}
		}
	}
	if strings.EqualFold(r.Header.Get("Connection"), "Upgrade") {
		r.Header["Connection"] = []string{"Upgrade"}
	} else {
		r.Header.Del("Connection")
	}
	for _, name := range d.removed {
		r.Header.Del(name)
	}
	websocket := d.websocket.MatchString(r.Header.Get("Upgrade"))
	res, err := d.client.Do(d.report(r, peer))
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		w.WriteHeader(http.StatusGatewayTimeout)
		return
	case err != nil:
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode >= 300 {
		maps.Copy(w.Header(), res.Header)
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body) // the client may be gone
		return
	}
	for _, name := range d.copied {
		name = http.CanonicalHeaderKey(name)
		r.Header.Del(name)
		if lines := res.Header[name]; len(lines) > 0 {
			r.Header[name] = lines
		}
	}
	if websocket {
		r.Header.Set("Upgrade", "websocket")
	}
	d.downstream.ServeHTTP(w, r)
}

// report returns the request that ForwardAuth sends.
func (d *documented) report(r *http.Request, peer string) *http.Request {
	q, err := http.NewRequestWithContext(r.Context(), http.MethodGet, d.address, http.NoBody)
	if err != nil {
		panic(err) // the address is of the file
	}
	q.Header = r.Header.Clone()
	for _, line := range r.Header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); !strings.HasPrefix(http.CanonicalHeaderKey(name), "X-") {
				q.Header.Del(name)
			}
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Te", "Trailers", "Transfer-Encoding", "Upgrade"} {
		q.Header.Del(name)
	}
	for name, value := range map[string]string{"Method": r.Method, "Proto": "http", "Host": r.Host, "Uri": r.URL.RequestURI()} {
		if name = "X-Forwarded-" + name; !d.trust || q.Header.Get(name) == "" {
			q.Header.Set(name, value)
		}
	}
	earlier := q.Header["X-Forwarded-For"]
	if !d.trust {
		earlier = nil
	}
	const second = "127.0.0.1" // the entry point of ForwardAuth adds its own client, which is Traefik
	q.Header.Set("X-Forwarded-For", strings.Join(append(earlier, peer, second), ", "))
	if q.Header.Get("X-Real-Ip") == "" {
		q.Header.Set("X-Real-Ip", peer)
	}
	return q
}
