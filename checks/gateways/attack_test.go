package gateways

import (
	"net/http"
	"strings"
	"testing"
)

// A client whose limit is used up sends headers by which gateways describe requests and clients, and other spellings of
// its request. None of them reaches the handler, and no other client pays for it.
func TestForgedDescriptions(t *testing.T) {
	t.Parallel()
	forged := []string{
		"X-Forwarded-For: 203.0.113.7", "X-Forwarded-For: 203.0.113.7, 127.0.0.1", "X-Forwarded-For: 127.0.0.1\nX-Forwarded-For: 203.0.113.7", "X-Real-IP: 203.0.113.7", "X-Real-IP: 127.0.0.1\nX-Forwarded-For: 203.0.113.7",
		"Forwarded: for=203.0.113.7", "X_Forwarded_For: 203.0.113.7", "X-Forwarded-For:", "X-Real-IP:", "X-Forwarded-For: unknown",
		"X-Original-URI: /free", "X-Original-Method: GET", "X-Original-Host: free.example", "X_Original_URI: /free", "X-Original-URI:", "X-Original-URI: /login\nX-Original-Method: GET\nX-Original-Host: www.example.com\nX-Real-IP: 203.0.113.7",
		"X-Forwarded-Uri: /free", "X-Forwarded-Method: GET", "X-Forwarded-Host: free.example", "X-Forwarded-Uri: /free\nX-Forwarded-Method: GET\nX-Forwarded-Host: free.example\nX-Forwarded-For: 203.0.113.7",
		"X-Original-URI: /free\nX-Original-Method: GET\nX-Original-Host: free.example\nX-Real-IP: 203.0.113.7\nX-Forwarded-For: 203.0.113.7",
		"X-HTTP-Method-Override: POST", "X-Original-URL: /login", "Sluice-Status: 200", "Sluice-Marked: x", "Connection: X-Original-URI, X-Original-Method, X-Real-IP", "Connection: X-Forwarded-For, X-Forwarded-Uri, X-Forwarded-Method",
		"Content-Length: 3\nExpect: 100-continue\n\nabc", "Transfer-Encoding: chunked\n\n0\r\n\r\n", "Upgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__\nConnection: Upgrade, HTTP2-Settings",
	}
	targets := []string{
		"/login", "/login?deny_status=403", "/login?deny_status=429", "/login/", "//login", "/./login", "/x/../login", "/%6cogin", "/login;x=1", "/login?x#y", "/%2e/login", "/x%2f../login", "http://www.example.com/login", "http://free.example/login", "/login%20", "/LOGIN/../login",
	}
	everywhere(t, func(w *world, _ gateway) {
		for range 5 {
			if a := w.send("127.0.0.2", "POST /login HTTP/1.1\nContent-Length: 0"); a.status != http.StatusOK {
				w.Fatalf("the first five logins should pass: %+v", a)
			}
		}
		w.service.take()
		try := func(text string) {
			if !strings.Contains(text, "Content-Length:") && !strings.Contains(text, "Transfer-Encoding:") {
				text += "\nContent-Length: 0"
			}
			a := w.send("127.0.0.2", text)
			got, _ := w.service.take()
			for _, r := range got {
				if (r.Method == http.MethodPost || r.Header.Get("X-Http-Method-Override") != "") && (r.URL.Path == "/login" || r.URL.Path == "/login/" || r.Header.Get("X-Original-Url") != "") {
					w.Errorf("got past the rule, with answer %d:\n%s\nthe service got %s %s %v", a.status, text, r.Method, r.RequestURI, r.Header)
				}
			}
		}
		for _, lines := range forged {
			try("POST /login HTTP/1.1\n" + lines)
			try("GET /free HTTP/1.1\n" + lines)
		}
		for _, target := range targets {
			try("POST " + target + " HTTP/1.1")
			try("post " + target + " HTTP/1.1")
			try("POST " + target + " HTTP/1.1\nHost: www.example.com:80:80")
			try("POST " + target + " HTTP/1.0\nHost:")
		}
		for _, victim := range []string{"127.0.0.3", "127.0.0.4"} {
			if a := w.send(victim, "POST /login HTTP/1.1\nContent-Length: 0\nX-Forwarded-For: 203.0.113.7"); a.status != http.StatusOK {
				w.Errorf("%s pays for others: %+v", victim, a)
			}
		}
	})
}

// Clients get no protocol in which they could send further requests past sluice.
func TestClientsGetNoOtherProtocol(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world, g gateway) {
		for lines, want := range map[string]string{
			"Upgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__": "", "Upgrade: foo": "", "Upgrade: h2c\nUpgrade: websocket": "", "Upgrade: websocket, h2c": "",
			"Upgrade: websocket\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Version: 13": "websocket", "Upgrade: WebSocket": "websocket", "Upgrade: websocket\nUpgrade: h2c": "websocket",
		} {
			w.send("127.0.0.2", "GET /free HTTP/1.1\nConnection: Upgrade\n"+lines)
			got, _ := w.service.take()
			for _, r := range got {
				if upgrade := strings.Join(r.Header["Upgrade"], ", "); upgrade != "" && !strings.EqualFold(upgrade, want) {
					w.Errorf("%q: the service got Upgrade: %s", lines, upgrade)
				}
			}
			if g.name == "Traefik" && want != "" && (len(got) != 1 || got[0].Header.Get("Upgrade") != want) {
				w.Errorf("%q: no WebSocket: %v", lines, got)
			}
		}
	})
}
