package gateways

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
)

// Each gateway limits the requests of each client by the rules, with the headers of the limit.
func TestEachGatewayLimitsByTheRules(t *testing.T) {
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
func TestRequestsWaitAtGateways(t *testing.T) {
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
func TestServicesBehindGatewaysGetMarks(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world, _ gateway) {
		for range 11 {
			if a := w.send("127.0.0.2", "GET /search HTTP/1.1\nSluice-Marked: forged\nSluice-Degraded: forged\nConnection: Sluice-Marked"); a.status != http.StatusOK {
				w.Fatalf("a marked request should pass: %+v", a)
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
		for _, name := range forgedMarks {
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

// Gateways that let requests pass while Sluice is away remove forged marks, in each spelling that a service reads as a mark.
func TestForgedMarksWithoutSluice(t *testing.T) {
	t.Parallel()
	open := map[string]func(string) string{
		"nginx": nil, "nginx with Lua": nil, "Caddy": strings.NewReplacer("# import", "import").Replace,
		"HAProxy": strings.NewReplacer("http-request return status 503", "# http-request return status 503").Replace,
	}
	for _, g := range gateways {
		change, passes := open[g.name]
		if !passes {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, g, change)
			w.decides()
			w.sluice.Kill()
			w.soon(http.StatusOK)
			w.service.take()
			passed := 0
			for _, name := range forgedMarks {
				if w.send("127.0.0.3", "GET /search HTTP/1.1\n"+name+": forged").status == http.StatusOK {
					passed++
				}
			}
			got, _ := w.service.take()
			for _, r := range got {
				for name, lines := range r.Header {
					if strings.HasPrefix(name, "Sluice") {
						w.Errorf("the service got the forged mark %s: %s", name, lines)
					}
				}
			}
			if passed == 0 {
				w.Error("no request passed without sluice")
			}
		})
	}
}

// forgedMarks are names that some services do not distinguish from the names of marks.
var forgedMarks = []string{"Sluice-Marked", "Sluice_Marked", "sluice.marked", "sluice!marked", "SLUICE_DEGRADED", "sluice-degraded", "Sluice~Degraded"}

// While sluice is stopped or hangs, a gateway answers within two seconds. It lets requests pass, or refuses them, as the
// example describes. Later it gets decisions again.
func TestWithoutSluice(t *testing.T) {
	t.Parallel()
	for _, g := range gateways {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, g, nil)
			w.decides()
			if g.hangs != 0 {
				w.hang()
				w.soon(g.hangs)
				w.soon(g.hangs) // over a connection of its own, or a kept one
				w.signal(syscall.SIGCONT)
				w.decides()
			}
			w.sluice.Kill()
			w.soon(g.down)
		})
	}
}

// With a line more, Caddy lets requests pass while sluice is stopped or hangs. It does not repeat requests that failed at the service.
func TestCaddyFailsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gateway{name: "Caddy", start: (*world).caddy}, strings.NewReplacer("# import", "import").Replace)
	w.decides()
	w.hang()
	w.soon(http.StatusOK)
	w.signal(syscall.SIGCONT)
	w.decides()
	w.sluice.Kill()
	w.soon(http.StatusOK)

	w = newWorld(t, gateway{name: "Caddy", start: (*world).caddy}, strings.NewReplacer("# import", "import").Replace)
	w.decides()
	w.service.broken.Store(true)
	if a := w.send("127.0.0.2", "POST /other HTTP/1.1\nContent-Length: 1\n\nx"); a.status != http.StatusBadGateway || w.service.failed.Load() != 1 {
		w.Errorf("a service that fails %d times: %+v", w.service.failed.Load(), a)
	}
}

// hang stops sluice, and waits until it does not answer.
func (w *world) hang() {
	w.Helper()
	w.signal(syscall.SIGSTOP)
	process.Eventually(w, "a sluice that hangs", func() bool {
		c, err := w.dialAuth(w.Context(), "", "")
		if err != nil {
			return false
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /auth HTTP/1.1\r\nHost: sluice\r\n\r\n"); err != nil || c.SetReadDeadline(time.Now().Add(200*time.Millisecond)) != nil {
			return false
		}
		_, err = c.Read(make([]byte, 1))
		return errors.Is(err, os.ErrDeadlineExceeded)
	})
}

// signal sends a signal to sluice.
func (w *world) signal(s syscall.Signal) {
	w.Helper()
	if err := w.sluice.Signal(s); err != nil {
		w.Fatal(err)
	}
}

// decides waits until the gateway gets decisions.
func (w *world) decides() {
	w.Helper()
	process.Eventually(w, "a decision", func() bool {
		a := w.send("127.0.0.2", "GET /search HTTP/1.1")
		got, _ := w.service.take()
		return a.status == http.StatusOK && (a.header.Get("RateLimit") != "" || len(got) > 0 && got[0].Header.Get("Sluice-Marked") != "")
	})
}

// soon expects an answer with a status within two seconds.
func (w *world) soon(status int) {
	w.Helper()
	began := time.Now()
	a := w.send("127.0.0.2", "POST /other HTTP/1.1\nSluice-Marked: forged\nContent-Length: 1\n\nx")
	if took := time.Since(began); a.status != status || took > 2*time.Second {
		w.Errorf("want %d within two seconds, got after %v: %+v", status, took, a)
	}
	got, bodies := w.service.take()
	if passed := status == http.StatusOK; passed != (len(got) == 1) {
		w.Errorf("the service got %d requests", len(got))
	} else if passed && (bodies[0] != "x" || got[0].Header.Get("Sluice-Marked") != "") {
		w.Errorf("the service got %q, %v", bodies[0], got[0].Header)
	}
}
