package proxy

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// seen answers with the headers that speak of the client, as the service sees
// them, and with what it was asked for.
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

// forge writes what clients write who want to be somebody else, in all spellings.
func forge(r *http.Request) {
	r.Host = "shop.example"
	for _, name := range []string{
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix",
		"X-Real-Ip", "Forwarded", "X_Forwarded_For", "X.Forwarded.For", "x_real_ip", "X-Real_IP", "X-Forwarded-Client-Cert",
	} {
		r.Header[name] = []string{forged}
	}
	// Hop by hop: what is named here is taken out on the way.
	r.Header["Connection"] = []string{"x-real-ip, x-forwarded-for, x-forwarded-proto"}
}

func TestSaysWhoTheClientIs(t *testing.T) {
	s := service(t, seen)
	f := front(t, s.URL, TransportOptions{}, nil)
	want := "X-Forwarded-For: 127.0.0.1\nX-Forwarded-Host: shop.example\nX-Forwarded-Proto: http\nX-Real-Ip: 127.0.0.1\nhost shop.example"
	if _, text := get(t, client(t), f.URL, forge); text != want {
		t.Errorf("the service saw\n%s\nwant\n%s", text, want)
	}
}

func TestKeepsWhatTrustedProxiesSay(t *testing.T) {
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
	c.say("GET / HTTP/1.1", "Host: shop.example", "Connection: close, x-real-ip", "X-Real-IP: "+forged, "x_real_ip: "+forged,
		"X-FORWARDED_FOR: "+forged, "forwarded: for="+forged, "")
	c.header()
	var text strings.Builder
	if _, err := c.in.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), forged) {
		t.Errorf("the service saw\n%s", text.String())
	}
}

func TestSendsTheServicesOwnNameIfAsked(t *testing.T) {
	s := service(t, seen)
	f := front(t, s.URL, TransportOptions{}, func(o *Options) { o.UpstreamHost = true })
	_, text := get(t, client(t), f.URL, func(r *http.Request) { r.Host = "shop.example" })
	if want := "host " + strings.TrimPrefix(s.URL, "http://"); !strings.HasSuffix(text, want) {
		t.Errorf("the service saw\n%s\nwant %s", text, want)
	}
}
