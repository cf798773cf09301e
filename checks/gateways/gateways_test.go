package gateways

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Each gateway limits the requests of each client by the rules, with the headers of the limit.
func TestLimits(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world, g gateway) {
		for i := range 7 {
			a := w.send("127.0.0.2", "POST /login HTTP/1.1\nContent-Length: 8\n\nuser=eve")
			want := http.StatusOK
			if i >= 5 {
				want = http.StatusTooManyRequests
			}
			if a.status != want {
				w.Fatalf("request %d: %+v", i, a)
			}
			// Traefik passes on the headers of denials only.
			if remaining := fmt.Sprintf(`"login";r=%d`, max(0, 4-i)); !strings.HasPrefix(a.header.Get("RateLimit"), remaining) && (i >= 5 || g.name != "Traefik") {
				w.Errorf("request %d: RateLimit is %q", i, a.header.Get("RateLimit"))
			}
			if want != http.StatusTooManyRequests {
				continue
			}
			if a.header.Get("Retry-After") == "" || a.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(a.body, "Quota exceeded") || a.header.Get("Cache-Control") != "no-store" {
				w.Errorf("a denial: %+v", a)
			}
		}
		got, bodies := w.service.take()
		if len(got) != 5 || got[0].Method != http.MethodPost || got[0].Host != "www.example.com" || bodies[4] != "user=eve" {
			w.Errorf("the service got %d requests, %q", len(got), bodies)
		}
		for _, r := range []struct{ client, text string }{
			{"127.0.0.3", "POST /login HTTP/1.1\nContent-Length: 0"}, {"127.0.0.2", "GET /login HTTP/1.1"}, {"127.0.0.2", "HEAD /login HTTP/1.1"}, {"127.0.0.2", "PUT /other?a=%2F HTTP/1.1\nContent-Length: 1\n\nx"},
		} {
			if a := w.send(r.client, r.text); a.status != http.StatusOK || a.header.Get("RateLimit") != "" && r.client == "127.0.0.2" {
				w.Errorf("%s from %s: %+v", r.text, r.client, a)
			}
		}
		if got, _ := w.service.take(); len(got) != 4 || got[3].RequestURI != "/other?a=%2F" {
			w.Errorf("the service got %d requests", len(got))
		}
	})
}

// Requests wait for their turn before they reach the service.
func TestDelays(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world, _ gateway) {
		began := time.Now()
		for i := range 12 {
			if a := w.send("127.0.0.2", "GET /api/x HTTP/1.1"); a.status != http.StatusOK {
				w.Fatalf("request %d: %+v", i, a)
			}
		}
		if took := time.Since(began); took < 350*time.Millisecond { // ten at once, and two at 5/s
			w.Errorf("twelve requests took %v", took)
		}
	})
}

// The service gets the marks of rules, and no other ones.
func TestMarks(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world, _ gateway) {
		for range 11 {
			if a := w.send("127.0.0.2", "GET /search HTTP/1.1\nSluice-Marked: forged\nSluice-Degraded: forged\nConnection: Sluice-Marked"); a.status != http.StatusOK {
				w.Fatalf("%+v", a)
			}
		}
		got, _ := w.service.take()
		for i, r := range got {
			want := ""
			if i == 10 {
				want = "search"
			}
			if mark := r.Header.Get("Sluice-Marked"); mark != want || r.Header["Sluice-Degraded"] != nil {
				w.Errorf("request %d has the mark %q, want %q: %v", i, mark, want, r.Header)
			}
		}
		if len(got) != 11 {
			w.Errorf("the service got %d requests", len(got))
		}
		// Some services do not distinguish these names from the names of marks.
		for _, name := range []string{"Sluice_Marked", "sluice.marked", "SLUICE_DEGRADED"} {
			w.send("127.0.0.3", "GET /search HTTP/1.1\n"+name+": forged")
		}
		got, _ = w.service.take()
		for _, r := range got {
			for name, lines := range r.Header {
				if strings.HasPrefix(name, "Sluice") {
					w.Errorf("the service got the forged mark %s: %s", name, lines)
				}
			}
		}
	})
}

// Without sluice, a gateway lets requests pass, or refuses them, as the example describes.
func TestWithoutSluice(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world, g gateway) {
		if a := w.send("127.0.0.2", "GET / HTTP/1.1"); a.status != http.StatusOK {
			w.Fatalf("%+v", a)
		}
		w.sluice.Kill()
		if a := w.send("127.0.0.2", "GET / HTTP/1.1"); a.status != g.without {
			w.Errorf("%+v", a)
		}
	})
}
