package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// playing starts a proxy before a service that answers each request with a text.
func playing(t *testing.T, answer string) (target string) {
	t.Helper()
	s := script(t, answering(answer, false))
	return front(t, s.url, TransportOptions{}, nil).URL
}

// upgradeLines are the lines of a request for an upgrade.
var upgradeLines = []string{"Connection: Upgrade", "Upgrade: websocket"}

// A client of HTTP/1.0 would take an interim answer for the final one.
func TestOldClientsGetNoInterimAnswers(t *testing.T) {
	target := playing(t, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"+ok)
	for name, lines := range map[string][]string{"plain": nil, "upgrade": upgradeLines, "body": {"Content-Length: 0", "Expect: 100-continue"}} {
		c := dial(t, target)
		c.send(append([]string{"GET / HTTP/1.0", "Host: example.com"}, append(lines, "")...)...)
		all, err := io.ReadAll(c)
		if text := string(all); err != nil || !strings.HasPrefix(text, "HTTP/1.0 200 ") || strings.Contains(text, "HTTP/1.1") || !strings.HasSuffix(text, "\r\n\r\nok") {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
	}
}

// Headers for one connection only do not pass in interim answers either.
func TestInterimAnswersLoseTheHeadersOfAHop(t *testing.T) {
	target := playing(t, "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=1\r\nProxy-Authenticate: Basic\r\n"+
		"Te: x\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\nUpgrade: h2c\r\nProxy-Connection: close\r\n\r\n"+ok)
	for name, lines := range map[string][]string{"plain": nil, "upgrade": upgradeLines} {
		c := dial(t, target)
		c.send(append([]string{"GET / HTTP/1.1", "Host: example.com"}, append(lines, "")...)...)
		if h := c.header(); h != "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n" {
			t.Errorf("%s: interim answer %q", name, h)
		}
		if h := c.header(); !strings.HasPrefix(h, "HTTP/1.1 200 ") {
			t.Errorf("%s: final answer %q", name, h)
		}
	}
}

// An answer to a request for an upgrade is held to the rules of the others.
func TestAnswersToUpgrades(t *testing.T) {
	const hint, most = "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n", 64
	for name, c := range map[string]struct {
		answer string
		hints  int
		status string
	}{
		"another answer":  {ok, 0, "200"},
		"status 099":      {"HTTP/1.1 099 Low\r\nContent-Length: 2\r\n\r\nok", 0, "502"},
		"status 000":      {"HTTP/1.1 000 None\r\nContent-Length: 2\r\n\r\nok", 0, "502"},
		"interim answers": {strings.Repeat(hint, most) + ok, most, "200"},
		"interim answers and an answer without a status": {strings.Repeat(hint, most+1) + "HTTP/1.1 20 Low\r\nContent-Length: 2\r\n\r\nok", most, "502"},
		"endless interim answers":                        {strings.Repeat(hint, 20_000) + ok, most, "502"},
	} {
		t.Run(name, func(t *testing.T) {
			w := dial(t, playing(t, c.answer))
			w.send(append([]string{"GET / HTTP/1.1", "Host: example.com"}, append(upgradeLines, "")...)...)
			hints := 0
			h := w.header()
			for ; strings.HasPrefix(h, "HTTP/1.1 103 "); h = w.header() {
				hints++
			}
			if hints != c.hints || !strings.HasPrefix(h, "HTTP/1.1 "+c.status+" ") {
				t.Errorf("%d interim answers and %q, want %d and %s", hints, h, c.hints, c.status)
			}
		})
	}
}

// An answer without a type stays one: its body might be anything, and browsers would take its page for one of the service.
func TestInventsNoType(t *testing.T) {
	const page = "<html><script>alert(1)</script></html>"
	for name, c := range map[string]struct{ method, answer string }{
		"a length":  {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 38\r\n\r\n" + page},
		"chunks":    {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n26\r\n" + page + "\r\n0\r\n\r\n"},
		"an error":  {"GET", "HTTP/1.1 500 No\r\nContent-Length: 38\r\n\r\n" + page},
		"a post":    {"POST", "HTTP/1.1 200 OK\r\nX-Content-Type-Options: nosniff\r\nContent-Length: 38\r\n\r\n" + page},
		"hints":     {"GET", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 38\r\n\r\n" + page},
		"head":      {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 38\r\n\r\n"},
		"unchanged": {"GET", "HTTP/1.1 304 Not Modified\r\n\r\n"},
		"nothing":   {"GET", "HTTP/1.1 204 No Content\r\n\r\n"},
	} {
		for _, h2 := range []bool{false, true} {
			s := script(t, answering(c.answer, false))
			f := frontOver(t, h2, handler(t, s.url, TransportOptions{}, nil))
			r, err := http.NewRequestWithContext(t.Context(), c.method, f.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, body := do(t, f.Client(), r)
			if types, there := res.Header["Content-Type"]; there {
				t.Errorf("%s, HTTP/2 %t: the type is %q", name, h2, types)
			}
			if c.method != http.MethodHead && res.StatusCode%100 == 0 && body != page { //nolint:usestdlibvars // of any class
				t.Errorf("%s, HTTP/2 %t: the body is %q", name, h2, body)
			}
		}
	}
	s := script(t, func(s *scripted, _ int64, c net.Conn, in *bufio.Reader) {
		for s.request(in) != nil {
			_, _ = io.WriteString(c, "HTTP/1.1 403 No\r\nContent-Length: 38\r\n\r\n"+page) // the client shows what arrived
		}
	})
	w := dial(t, front(t, s.url, TransportOptions{}, nil).URL)
	w.send(append([]string{"GET / HTTP/1.1", "Host: example.com"}, append(upgradeLines, "")...)...)
	if h := w.header(); strings.Contains(h, "Content-Type") {
		t.Errorf("upgrade: %q", h)
	}
}
