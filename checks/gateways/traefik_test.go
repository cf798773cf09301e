package gateways

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// traefikEnv is the path of Traefik, which takes minutes to build: see tools/traefik.sh. Without it, the tests use documented.
const traefikEnv = "SLUICE_TRAEFIK"

// traefik starts Traefik, or a program that does what Traefik documents.
func (w *world) traefik() {
	w.Helper()
	program := os.Getenv(traefikEnv)
	if program == "" {
		w.documentedTraefik()
		return
	}
	w.file("traefik.yml", nil)
	p := w.begin(w.gateway, program, "--configFile="+w.file("traefik-static.yml", func(text string) string {
		return text + "global: {checkNewVersion: false}\n"
	}))
	if err := p.Until(func() error {
		if a := w.send("127.0.0.1", "GET / HTTP/1.1"); a.status == http.StatusNotFound {
			return errors.New("has not read its file")
		}
		return nil
	}); err != nil {
		w.Fatal(err)
	}
	w.service.take()
}

// behindABalancer changes the files as they describe it for a load balancer at 127.0.0.9.
var behindABalancer = strings.NewReplacer(
	"trustForwardHeader: false", "trustForwardHeader: true",
	"address: 127.0.0.1:8000", "address: 127.0.0.1:8000\n    forwardedHeaders: {trustedIPs: [127.0.0.9]}",
	"trusted_proxies: [127.0.0.1, unix]", "trusted_proxies: [127.0.0.1, 127.0.0.9]",
)

// A load balancer before Traefik reports the address of the client, and nothing else. Other peers report nothing.
func TestTraefikBehindABalancer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway{name: "Traefik", start: (*world).traefik}, behindABalancer.Replace)
	const balancer = "127.0.0.9"
	post := func(peer, lines string) int {
		return w.send(peer, "POST /login HTTP/1.1\nContent-Length: 0\n"+lines).status
	}
	for i, client := range []string{"203.0.113.7", "203.0.113.8"} {
		for n := range 7 {
			want := http.StatusOK
			if n >= 5 {
				want = http.StatusTooManyRequests
			}
			// The client wrote the first address.
			if got := post(balancer, fmt.Sprintf("X-Forwarded-For: 203.0.113.%d, %s", 100+n, client)); got != want {
				t.Errorf("request %d of client %d: %d", n, i, got)
			}
		}
	}
	if got, _ := w.service.take(); len(got) != 10 || got[0].Header.Get("X-Forwarded-For") != "203.0.113.100, 203.0.113.7, "+balancer {
		t.Errorf("the service got %d requests, %q", len(got), got[0].Header["X-Forwarded-For"])
	}
	for _, forged := range []string{
		"X-Forwarded-Uri: /free", "X-Forwarded-Method: GET", "X-Forwarded-Host: free.example", "X-Forwarded-Uri: /free\nX-Forwarded-Method: GET\nX-Forwarded-Host: free.example",
		"X-Real-Ip: 203.0.113.9", "X-Original-URI: /free", "X-Original-Method: GET", "X_Forwarded_Uri: /free", "Connection: X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-For",
	} {
		if got := post(balancer, forged+"\nX-Forwarded-For: 203.0.113.7"); got == http.StatusOK {
			t.Errorf("a balancer that passes on %q: %d", forged, got)
		}
	}
	for n := range 7 {
		want := http.StatusOK
		if n >= 5 {
			want = http.StatusTooManyRequests
		}
		if got := post("127.0.0.2", fmt.Sprintf("X-Forwarded-For: 203.0.113.%d\nX-Forwarded-Uri: /free", 200+n)); got != want {
			t.Errorf("request %d of another peer: %d", n, got)
		}
	}
}
