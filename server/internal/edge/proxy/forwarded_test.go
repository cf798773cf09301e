package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// seen responds with the headers about the client, as the service gets them, and with the
// requested host.
func seen(w http.ResponseWriter, r *http.Request) {
	var lines []string
	for name, values := range r.Header {
		if strings.Contains(strings.ToLower(name), "forward") || strings.Contains(strings.ToLower(name), "real") {
			lines = append(lines, fmt.Sprintf("%s: %s", name, strings.Join(values, " | ")))
		}
	}
	slices.Sort(lines)
	fmt.Fprintf(w, "%s\nhost %s", strings.Join(lines, "\n"), r.Host)
}

const forged = "6.6.6.6"

// forge sets the headers of a client that imitates another client, in all spellings.
func forge(r *http.Request) {
	r.Host = "shop.example"
	for _, name := range []string{
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix",
		"X-Real-Ip", "Forwarded", "X_Forwarded_For", "X.Forwarded.For", "x_real_ip", "X-Real_IP", "X-Forwarded-Client-Cert",
	} {
		r.Header[name] = []string{forged}
	}
	// Connection lists headers for one hop only, so the proxy removes them.
	r.Header["Connection"] = []string{"x-real-ip, x-forwarded-for, x-forwarded-proto"}
}

func TestReportsTheClientToTheService(t *testing.T) {
	s := service(t, seen)
	f := front(t, s.URL, TransportOptions{}, nil)
	want := "X-Forwarded-For: 127.0.0.1\nX-Forwarded-Host: shop.example\nX-Forwarded-Proto: http\nX-Real-Ip: 127.0.0.1\nhost shop.example"
	if _, text := get(t, client(t), f.URL, forge); text != want {
		t.Errorf("the service saw\n%s\nwant\n%s", text, want)
	}
}

func TestKeepsHeadersOfTrustedProxies(t *testing.T) {
	s := service(t, seen)
	f := front(t, s.URL, TransportOptions{}, func(o *Options) {
		o.Trusted = netip.Addr.IsLoopback
		o.ClientIP = func(*http.Request) netip.Addr { return netip.MustParseAddr("203.0.113.9") }
	})
	_, text := get(t, client(t), f.URL, func(r *http.Request) {
		r.Host = "inner.example"
		r.Header["X-Forwarded-For"] = []string{"198.51.100.7", "203.0.113.9"}
		r.Header["X-Forwarded-Host"] = []string{"shop.example"}
		r.Header["X-Forwarded-Proto"] = []string{"https"}
		r.Header["X-Real-Ip"] = []string{forged}
		r.Header["X_Forwarded_For"] = []string{forged}
	})
	want := "X-Forwarded-For: 198.51.100.7, 203.0.113.9, 127.0.0.1\nX-Forwarded-Host: shop.example\nX-Forwarded-Proto: https\nX-Real-Ip: 203.0.113.9\nhost inner.example"
	if text != want {
		t.Errorf("the service saw\n%s\nwant\n%s", text, want)
	}
}

func TestStripsAliasesOnTheWire(t *testing.T) {
	s := service(t, seen)
	f := front(t, s.URL, TransportOptions{}, nil)
	c := dial(t, f.URL)
	c.send("GET / HTTP/1.1", "Host: shop.example", "Connection: close, x-real-ip", "X-Real-IP: "+forged, "x_real_ip: "+forged,
		"x.real.ip: "+forged, "X-FORWARDED_FOR: "+forged, "X.Forwarded.For: "+forged, "X!Forwarded*For: "+forged, "x~real+ip: "+forged, "forwarded: for="+forged, "")
	c.header()
	var text strings.Builder
	if _, err := c.in.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), forged) {
		t.Errorf("the service saw\n%s", text.String())
	}
}

// A service that turns trailers into headers sees no forged client, over HTTP/1 and HTTP/2.
func TestStripsTrailers(t *testing.T) {
	s := service(t, func(w http.ResponseWriter, r *http.Request) {
		announced := len(r.Trailer)
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Method, " ", announced, " ", r.Trailer)
	})
	f := front(t, s.URL, TransportOptions{}, nil)
	forgedLines := []string{"X-Forwarded-For: " + forged, "x_real_ip: " + forged, "Forwarded: for=" + forged, "X.Forwarded.Host: " + forged}
	for _, method := range []string{"POST", "GET"} {
		for _, announced := range []string{"X-Sum", "X-Sum, X-Forwarded-For, x_real_ip, Forwarded, X.Forwarded.Host"} {
			c := dial(t, f.URL)
			c.send(method+" / HTTP/1.1", "Host: shop.example", "Connection: close", "Transfer-Encoding: chunked", "Trailer: "+announced, "", "4", "body", "0", "X-Sum: 1")
			c.send(append(forgedLines, "")...)
			c.header()
			var text strings.Builder
			if _, err := c.in.WriteTo(&text); err != nil {
				t.Fatal(err)
			}
			if want := method + " 1 map[X-Sum:[1]]"; !strings.Contains(text.String(), want) {
				t.Errorf("%s announced: the service saw\n%s\nwant %s", announced, text.String(), want)
			}
		}
	}

	second := httptest.NewUnstartedServer(Bounded(handler(t, s.URL, TransportOptions{}, nil), DefaultStall))
	second.EnableHTTP2 = true
	second.StartTLS()
	t.Cleanup(second.Close)
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		for _, body := range []string{"body", ""} {
			r, err := http.NewRequestWithContext(t.Context(), method, second.URL, io.NopCloser(strings.NewReader(body)))
			if err != nil {
				t.Fatal(err)
			}
			r.Trailer = http.Header{"X-Sum": {"1"}, "X-Forwarded-For": {forged}, "X_real_ip": {forged}, "Forwarded": {forged}}
			if res, text := do(t, second.Client(), r); text != method+" 1 map[X-Sum:[1]]" {
				t.Errorf("over HTTP/2, body %q: %d, the service saw %s", body, res.StatusCode, text)
			}
		}
	}
}

func TestSendsTheServicesOwnNameIfSet(t *testing.T) {
	s := service(t, seen)
	f := front(t, s.URL, TransportOptions{}, func(o *Options) { o.UpstreamHost = true })
	_, text := get(t, client(t), f.URL, func(r *http.Request) { r.Host = "shop.example" })
	if want := "host " + strings.TrimPrefix(s.URL, "http://"); !strings.HasSuffix(text, want) {
		t.Errorf("the service saw\n%s\nwant %s", text, want)
	}
}
