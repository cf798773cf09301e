package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// rawCorpus returns targets of request lines as attackers write them.
func rawCorpus() []string {
	words := []string{
		"login", "Login", "%6cogin", "%6Cogin", "lo%67in", "login%20", "login%00", "login;x=1", "admin", "adm%69n", "%61dmin", "7", "%37", "a b", "a%20b", "a+b",
		"caf%c3%a9", "caf%C3%A9", "a%2fb", "a%2Fb", "a%5cb", `a\b`, "%2e%2e%2flogin", "..;", "%252e", "%2561", ".login", "login.", "~x", "%7ex", "a:b", "a%3ab", "a@b", "a%40b",
	}
	dots := []string{"", ".", "..", "%2e", "%2E", "%2e%2e", ".%2e", "%2E."}
	prefixes := []string{"/", "//", "/./", "/%2e/", "/x/../", "/x/%2e%2e/", "/x/y/../../", "/../"}
	var all []string
	for _, prefix := range prefixes {
		for _, word := range words {
			if strings.ContainsAny(word, " ") {
				continue // would end the target
			}
			all = append(all, prefix+word, prefix+"admin/"+word, prefix+"adm%69n//"+word)
			for _, dot := range dots {
				all = append(all, prefix+word+"/"+dot, prefix+"admin/"+dot+"/"+word, prefix+"admin/"+word+"/"+dot)
			}
		}
	}
	return all
}

// sendRaw sends a GET with each target, unchanged, over one connection after the other. It
// returns the bodies of the responses, and "" for a status other than 200.
func sendRaw(t *testing.T, s *httptest.Server, targets []string) []string {
	t.Helper()
	var c net.Conn
	var in *bufio.Reader
	bodies := make([]string, len(targets))
	for i, target := range targets {
		if c == nil {
			var d net.Dialer
			var err error
			if c, err = d.DialContext(t.Context(), "tcp", s.Listener.Addr().String()); err != nil {
				t.Fatal(err)
			}
			if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			in = bufio.NewReader(c)
		}
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a.example\r\n\r\n", target); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("no response to target %q: %v", target, err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatalf("the body for target %q ends early: %v", target, err)
		}
		if res.StatusCode == http.StatusOK {
			bodies[i] = string(body)
		}
		if res.Close {
			c.Close()
			c = nil
		}
	}
	if c != nil {
		c.Close()
	}
	return bodies
}

// However a path is written, requests that reach the same handler with the same arguments have the
// same key. Requests that reach different handlers have different keys. The test runs over
// connections, for services that find handlers in four ways, and compares the first key.
// Some services keep encoded dots as letters, as a ServeMux does. Another key identifies their
// handler, so only the first statement holds for them.
func TestSameHandlerSameKey(t *testing.T) {
	keyIn := func(r *http.Request) string {
		v, _ := policy.FromContext(r.Context())
		return v.Results[0].Request.Key.Text()
	}
	reached := func(w http.ResponseWriter, r *http.Request, handler string) {
		fmt.Fprintf(w, "%s\n%s", handler, keyIn(r))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) { reached(w, r, "login") })
	mux.HandleFunc("/admin/{id}", func(w http.ResponseWriter, r *http.Request) {
		reached(w, r, fmt.Sprintf("admin %q", r.PathValue("id")))
	})
	mux.HandleFunc("/admin/{id}/{rest}", func(w http.ResponseWriter, r *http.Request) {
		reached(w, r, fmt.Sprintf("admin %q %q", r.PathValue("id"), r.PathValue("rest")))
	})
	// cleaned is a service that decodes a path, cleans it and finds a handler for it.
	cleaned := func(change func(string) string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reached(w, r, fmt.Sprintf("%q", path.Clean("/"+change(r.URL.EscapedPath()))))
		})
	}
	unescape := func(escaped string) string {
		decoded, err := url.PathUnescape(escaped)
		if err != nil {
			return escaped
		}
		return decoded
	}
	targets := rawCorpus()
	for _, c := range []struct {
		name  string
		paths policy.Paths
		h     http.Handler

		literalDots bool // the service keeps encoded dots
	}{
		{"a ServeMux", policy.Paths{}, mux, true},
		{"decode, then split", policy.Paths{EncodedSlash: policy.SlashDecode}, cleaned(unescape), false},
		{"decode, any case", policy.Paths{EncodedSlash: policy.SlashDecode, IgnoreCase: true}, cleaned(func(p string) string { return strings.ToLower(unescape(p)) }), false},
		{"without parameters", policy.Paths{EncodedSlash: policy.SlashDecode, StripParams: true}, cleaned(func(p string) string {
			segments := strings.Split(p, "/")
			for i := range segments {
				segments[i], _, _ = strings.Cut(segments[i], ";")
			}
			return unescape(strings.Join(segments, "/"))
		}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := int64(1e6)
			d := governed(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Options{
				Paths: c.paths, Rules: []policy.Rule{{Name: "path", Key: []policy.Part{policy.Path()}, Limits: hourly(1 << 30)}},
			})
			s := served(t, wrap(t, d, httplimit.Options{Context: true, OnError: func(_ *http.Request, err error) { t.Error(err) }}, c.h))
			keys, handlers, first := map[string]string{}, map[string]string{}, map[string]string{}
			for i, body := range sendRaw(t, s, targets) {
				handler, key, ok := strings.Cut(body, "\n")
				if !ok {
					continue // no handler was reached
				}
				if other, ok := keys[handler]; ok && other != key {
					t.Errorf("%s and %s reach %s, but have the keys %q and %q", targets[i], first[handler], handler, key, other)
				}
				if keys[handler] = key; first[handler] == "" {
					first[handler] = targets[i]
				}
				if literal := c.literalDots && strings.Contains(strings.ToLower(targets[i]), "%2e"); literal {
					continue
				}
				if other, ok := handlers[key]; ok && other != handler {
					t.Errorf("%s has the key %q, and reaches %s; others reach %s", targets[i], key, handler, other)
				}
				handlers[key] = handler
			}
			if len(keys) < 20 {
				t.Errorf("%d targets reach only %d handlers", len(targets), len(keys))
			}
		})
	}
}

// While no proxy is trusted, a client that writes a proxy's header neither escapes a limit nor uses up another's.
func TestHeadersOfClientsChangeNoAddress(t *testing.T) {
	clock := int64(1e6)
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Rule{Name: "client", Key: []policy.Part{policy.ClientIP()}, Limits: hourly(3)})
	s := served(t, wrap(t, d, httplimit.Options{}, nothing))
	headers := []string{"X-Forwarded-For", "X-Real-IP", "Forwarded", "True-Client-IP", "CF-Connecting-IP", "X-Client-IP", "X-Cluster-Client-IP", "X_Forwarded_For", "Client-IP", "Via"}
	for i := range 60 {
		name, value := headers[i%len(headers)], fmt.Sprintf("203.0.113.%d", i)
		if name == "Forwarded" {
			value = "for=" + value
		}
		r := get("/")
		r.Header = http.Header{name: {value, value}}
		if got := send(t, s, r); (got.status == http.StatusOK) != (i < 3) {
			t.Fatalf("request %d, with %s: %d", i, name, got.status)
		}
	}
	// The forged addresses still have their whole budget.
	for i := range 60 {
		r := get("/")
		r.RemoteAddr = fmt.Sprintf("203.0.113.%d:80", i)
		if v := d.Decide(r); !v.Allowed() || v.Tightest.Remaining != 2 {
			t.Fatalf("203.0.113.%d has %d left", i, v.Tightest.Remaining)
		}
	}
}

// FuzzProxies trusts ranges of proxies exactly as net/netip parses them. It refuses a mapped range
// that would hold more than its IPv4 range.
func FuzzProxies(f *testing.F) {
	for _, text := range []string{
		"10.0.0.0/8", "10.0.0.1", "::1", "fd00::/8", "::ffff:10.0.0.0/104", "::ffff:10.0.0.0/8", "::ffff:0:0/95", "::ffff:0:0/96", "0.0.0.0/0", "::/0", "10.1.2.3/8", "10.0.0.0/08", "fe80::1%eth0",
	} {
		for _, peer := range []string{"10.1.2.3", "::ffff:10.1.2.3", "192.0.2.1", "::1", "fd00::2"} {
			f.Add(text, peer)
		}
	}
	f.Fuzz(func(t *testing.T, text, peer string) {
		ranges, err := httplimit.ParseProxies(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "httplimit: ") {
				t.Fatalf("proxies %q: the error %v does not begin with the package", text, err)
			}
			return
		}
		addr := addressIn(peer)
		if len(ranges) != 1 || !addr.IsValid() {
			return
		}
		want, mapped := ranges[0], strings.Contains(text, ".") && strings.Contains(text, ":")
		if mapped && !want.Addr().Is4() && !want.Addr().Is4In6() && want.Contains(addr) && addr.Is4() {
			t.Fatalf("%q became %v, which holds %v", text, want, addr)
		}
		c, err := httplimit.NewClientIP(httplimit.ClientIPOptions{TrustedProxies: ranges, MaxHops: 1})
		if err != nil {
			t.Fatalf("%q, which became %v: %v", text, want, err)
		}
		const claimed = "198.51.100.77"
		r := &http.Request{RemoteAddr: net.JoinHostPort(addr.String(), "80"), Header: http.Header{"X-Forwarded-For": {claimed}}}
		got, ok := c.Addr(r)
		believed := ok && got.String() == claimed
		if inside := plainContains(text, addr); believed != inside && addr.String() != claimed {
			t.Fatalf("%q trusts %v: %v; want %v", text, addr, believed, inside)
		}
	})
}

// plainContains parses a range with package net, unlike the code under test: net has no mapped addresses.
func plainContains(text string, addr netip.Addr) bool {
	if !strings.Contains(text, "/") {
		only, err := netip.ParseAddr(text)
		return err == nil && only.Unmap() == addr
	}
	_, network, err := net.ParseCIDR(text)
	if err != nil {
		return false
	}
	ones, bits := network.Mask.Size()
	if bits == 128 && ones >= 96 && network.IP.To4() != nil {
		network = &net.IPNet{IP: network.IP.To4(), Mask: net.CIDRMask(ones-96, 32)}
		bits = 32
	}
	return (bits == 32) == addr.Is4() && network.Contains(addr.AsSlice())
}

// A target that is not a path but has a URL after a colon is refused. Otherwise rules would match
// its path as "/", and a proxy behind the middleware would forward the URL.
func TestTargetsWithoutPath(t *testing.T) {
	reached := make(chan string, 100)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.URL.Path }))
	t.Cleanup(service.Close)
	to, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	clock := int64(1e6)
	d := ruled(t, storeAt(t, &clock), httplimit.PolicyOptions{}, policy.Rule{
		Name: "login", Match: policy.Match{Paths: []string{"/login"}}, Key: []policy.Part{policy.Global()}, Limits: hourly(1),
	})
	s := served(t, wrap(t, d, httplimit.Options{}, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}))
	for _, target := range []string{"/login", "x:http://a.example/login", "http:http://a.example/login", "x:login", "http:login?a"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n", target); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		conn.Close()
		want := "HTTP/1.1 400 "
		if target == "/login" {
			want = "HTTP/1.1 200 "
		}
		if err != nil || !strings.HasPrefix(string(answer), want) {
			t.Errorf("target %s got %q, %v; want %q", target, answer, err, want)
		}
	}
	if len(reached) != 1 {
		t.Errorf("the service was reached %d times", len(reached))
	}
}
