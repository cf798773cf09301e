package gateways

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
)

// denials are rules whose denials are hard to pass on.
const denials = `rules:
  - name: page
    match: {path: /page}
    key: client_ip
    limit: {algorithm: fixed_window, rate: 1/d, starts: first_request}
    when_limited:
      status: 451
      header: {X-Rule: "{rule} 100%"}
      content_type: text/html; charset=utf-8
      body: "<p>50%0A of \"%[src]\" — §\n<b>second</b> line\t\\n'$host'</p>\n"
  - name: none
    match: {path: /none}
    key: client_ip
    limit: {algorithm: fixed_window, rate: 1/d, starts: first_request}
    when_limited: {status: 503, content_type: text/plain, body: ""}
  - name: json
    match: {path: /json}
    key: client_ip
    limit: {algorithm: fixed_window, rate: 1/d, starts: first_request}
    when_limited: {status: 403, content_type: application/json, body: '{"a": 1}'}
  - {name: plain, match: {path: /plain}, key: client_ip, limit: {algorithm: fixed_window, rate: 1/d, starts: first_request}}
  - {name: secret, match: {path: /secret}, key: {part: "header:X-Key", on_missing: deny}, limit: {algorithm: fixed_window, rate: 1/d, starts: first_request}}
`

// Each gateway passes on denials of all kinds as sluice answers them: status, headers and body. Only nginx without Lua has
// bodies of its own.
func TestGatewaysPassOnDenials(t *testing.T) {
	t.Parallel()
	for _, g := range gateways {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, g, func(text string) string {
				if before, _, ours := strings.Cut(text, "rules:\n"); ours {
					text = before + denials
				}
				return process.Patient(text)
			})
			for _, text := range []string{
				"GET /page HTTP/1.1", "HEAD /page HTTP/1.1", "POST /page HTTP/1.1\nContent-Length: 4\n\nbody", "GET /none HTTP/1.1", "GET /json HTTP/1.1", "GET /plain HTTP/1.1", "GET /secret HTTP/1.1",
				"GET /plain HTTP/1.1\nX-HTTP-Method-Override: DELETE",
			} {
				w.service.take()
				if w.send("127.0.0.2", text); !strings.Contains(text, "Override") && !strings.Contains(text, "/secret") {
					w.send("127.0.0.2", text) // the first one may pass
				}
				w.service.take()
				got, want := w.send("127.0.0.2", text), w.direct(text)
				if served, _ := w.service.take(); len(served) > 0 {
					w.Errorf("%q reaches the service", text)
				}
				// Sluice itself answers later.
				if wait, later := seconds(got), seconds(want); wait < later || wait > later+int(process.Patience/time.Second) {
					w.Errorf("%q: Retry-After is %d, want %d", text, wait, later)
				}
				if g.name == "nginx" {
					w.owned(text, got, want)
					continue
				}
				if got.status != want.status || got.body != want.body {
					w.Errorf("%q: %d %q, want %d %q", text, got.status, got.body, want.status, want.body)
				}
				for _, name := range []string{"Content-Type", "Cache-Control", "X-Rule", "Ratelimit-Policy"} {
					if a, b := got.header.Get(name), want.header.Get(name); a != b {
						w.Errorf("%q: %s is %q, want %q", text, name, a, b)
					}
				}
			}
		})
	}
}

// seconds returns the wait of an answer, 0 for none.
func seconds(a answer) int {
	n, _ := strconv.Atoi(a.header.Get("Retry-After")) // 0 without it
	return n
}

// owned checks a denial to which nginx has a body of its own.
func (w *world) owned(text string, got, want answer) {
	w.Helper()
	status := want.status
	if status == http.StatusUnavailableForLegalReasons {
		status = http.StatusForbidden // the file has no body for it
	}
	if got.status != status || got.header.Get("Cache-Control") != "no-store" || got.header.Get("Content-Type") != "application/problem+json" {
		w.Errorf("%q: %+v, sluice answers %+v", text, got, want)
	}
}

// direct returns what sluice itself answers.
func (w *world) direct(text string) answer {
	w.Helper()
	head, _, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	words := strings.Fields(lines[0])
	ctx, cancel := context.WithTimeout(w.Context(), process.Patience)
	defer cancel()
	method := http.MethodGet
	if words[0] == http.MethodHead {
		method = http.MethodHead
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://sluice/auth", http.NoBody)
	if err != nil {
		w.Fatal(err)
	}
	for _, line := range lines[1:] {
		if name, value, _ := strings.Cut(line, ": "); name != "Content-Length" {
			r.Header.Set(name, value)
		}
	}
	for name, value := range map[string]string{"Method": words[0], "URI": words[1], "Host": "www.example.com"} {
		r.Header.Set("X-Original-"+name, value)
	}
	r.Header.Set("X-Real-IP", "127.0.0.2")
	res, err := (&http.Client{Transport: &http.Transport{DialContext: w.dialAuth, DisableKeepAlives: true}}).Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}
