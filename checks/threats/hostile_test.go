package threats

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// hostile is a service that answers each request with the text that the client has chosen, in front of which is a sluice
// without rules.
type hostile struct {
	sluice  *process.Sluice
	mu      sync.Mutex
	answers map[string]string // by the tag of the request
}

const (
	// inTime is how long an answer may take. A service that ignores Expect gets the body after a second.
	inTime = 5 * time.Second
	// mostInterim is how many interim answers the proxy passes on.
	mostInterim = 64
	// ofService marks the answers of the service.
	ofService = "X-Of: service"
	// switching requests an upgrade, and grants it.
	switching = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
)

func newHostile(t *testing.T) *hostile {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{answers: map[string]string{}}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go h.serve(c)
		}
	}()
	folder := t.TempDir()
	program, err := process.Build(folder)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(folder, "sluice.yaml")
	text := "version: 1\nlisten: {proxy: '127.0.0.1:0', api: off, admin: off}\nupstream: 'http://" + l.Addr().String() + "'\nlog: {level: error}\nrules: []\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.sluice = process.StartSluice(t, exec.Command(program, "serve", config), 1)
	return h
}

// serve answers the requests of a connection.
func (h *hostile) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		h.mu.Lock()
		answer := h.answers[r.Header.Get("X-Case")]
		h.mu.Unlock()
		if _, err := io.WriteString(c, answer); err != nil || r.Header.Get("X-Then") != "stay" {
			return
		}
	}
}

// A play is a request and its answer. The pieces from the number split on are of the answer.
type play struct {
	attack
	split    int
	method   string
	old      bool // the client speaks HTTP/1.0
	status   int  // of the final answer; 0 if it is not a status
	typeless bool
	// sendsHop says that X-Hop is a header for clients in one of the answers: its Connection does not name it, or names
	// close too. Then package http does not show it to the proxy.
	sendsHop bool
}

// play makes a request, and an answer of the service.
func (g gen) play() play {
	p := play{method: g.mostly("GET", "HEAD", "POST", "PUT", "DELETE")}
	version := g.mostly("HTTP/1.1", "HTTP/1.0")
	p.old = version == "HTTP/1.0"
	out := func(text, plain string) { p.attack = append(p.attack, token{text, plain}) }
	out(p.method+" / "+version+"\r\nHost: www.example.com\r\nX-Case: "+tagWord+"\r\n", "")
	p.attack[0].plain = p.attack[0].text // judged by them
	connection := "Connection: close\r\n"
	switch {
	case g.chance(25):
		connection = switching
	case g.chance(30):
		connection = "Connection: keep-alive\r\n"
	}
	out(connection, "Connection: close\r\n")
	if g.chance(30) {
		out("X-Then: stay\r\n", "")
	}
	body := ""
	if g.chance(30) {
		inner := g.pick("x=1", simple("/inner"), simple("/inner", "Connection: close"))
		if g.chance(40) {
			out("Expect: 100-continue\r\n", "")
		}
		length := fmt.Sprintf("Content-Length: %d\r\n", len(inner))
		if body = inner; g.chance(50) {
			length = g.mostly("Transfer-Encoding: chunked\r\n", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n")
			body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner)
			if p.old || strings.Contains(length, "Length") {
				body = g.pick(body, "0\r\n\r\n"+inner) // one request all the same
			}
		}
		out(length, length)
	}
	out("\r\n"+body, "\r\n"+body)
	p.split = len(p.attack)

	hop := func() string {
		return g.pick("Connection: X-Hop", "Connection: x-hop, close", "Connection: close, X-Hop", "Connection: keep-alive", "Connection: close", "X-Hop: 1", "X-Hop: 2", "Keep-Alive: timeout=1", "Proxy-Authenticate: Basic", "Proxy-Connection: close", "Te: x", "Trailer: X-Sum", "Upgrade: h2c", "Link: <a>", "Set-Cookie: a=b") + "\r\n"
	}
	lines := func() string {
		var all strings.Builder
		for g.chance(50) {
			all.WriteString(hop())
		}
		return all.String()
	}
	if g.chance(50) {
		for range g.some(3) {
			head := "HTTP/1.1 " + g.mostly("103 Early Hints", "100 Continue", "102 Processing", "199 Odd", "104 Upload") + "\r\n" + lines() + g.mostly("", "Transfer-Encoding: chunked\r\n", "Content-Length: 2\r\n") + "\r\n"
			if g.chance(10) {
				head = strings.Repeat(head, []int{mostInterim, mostInterim + 1, 20_000}[g.IntN(3)])
			}
			out(head, "")
		}
	}
	status := g.mostly("200", "200", "404", "503", "204", "304", "101", "099", "000", "20", "2000", "2x0", "-20")
	if n, err := strconv.Atoi(status); err == nil && len(status) == 3 && n >= 100 {
		p.status = n
	}
	const page = "<html><script>alert(1)</script></html>"
	out("HTTP/1.1 "+status+" Text\r\n", "HTTP/1.1 "+status+" Text\r\n")
	out(ofService+"\r\n"+lines(), ofService+"\r\n")
	if status == "101" {
		out(switching, switching)
	}
	if p.typeless = g.chance(70); !p.typeless {
		out("Content-Type: text/plain\r\n", "Content-Type: text/plain\r\n")
	}
	switch g.IntN(3) {
	case 0:
		out(fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(page), page), "")
	case 1:
		out(fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(page), page), "")
	default:
		out("\r\n"+page, "")
	}
	last := &p.attack[len(p.attack)-1]
	last.plain = last.text
	if g.chance(20) {
		out(g.pick("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", "\r\n", "HTTP/1.1 100 Continue\r\n\r\n"), "")
	}
	return p
}

// perform sends a request, and returns what the client gets and how long that took.
func (h *hostile) perform(a attack, split, number int) (string, time.Duration, error) {
	tag := fmt.Sprintf("h%07d", number)
	h.mu.Lock()
	h.answers[tag] = a[split:].String()
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.answers, tag)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", h.sluice.Address("proxy"))
	if err != nil {
		return "", 0, err
	}
	defer c.Close()
	begun := time.Now()
	_ = c.SetDeadline(begun.Add(2 * inTime)) // a connection that is gone fails below
	_, _ = io.WriteString(c, strings.ReplaceAll(a[:split].String(), tagWord, tag))
	var answer []byte
	took := 2 * inTime
	for piece := make([]byte, 1<<16); ; {
		n, err := c.Read(piece)
		answer = append(answer, piece[:n]...)
		if took > inTime && finalHead.Match(answer) {
			took = time.Since(begun)
		}
		if took <= inTime {
			_ = c.SetReadDeadline(time.Now().Add(idle))
		}
		if err != nil {
			return string(answer), min(took, time.Since(begun)), nil // a part is judged too
		}
	}
}

// finalHead is the head of an answer that is not interim.
var finalHead = regexp.MustCompile(`HTTP/1\.[01] (?:101|[^1])[^\r]*\r\n(?:[^\r]+\r\n)*\r\n`)

// faults returns the promises that an answer to an attack breaks.
func (p *play) faults(a attack, answer string, took time.Duration) (broken []string) {
	p.sendsHop = false
	for head := range strings.SplitSeq(strings.ToLower(a[p.split:].String()), "\r\n\r\n") {
		p.sendsHop = p.sendsHop || strings.Contains(head, "\nx-hop:") && (!namesHop.MatchString(head) || closing.MatchString(head))
	}
	is := func(promise string, broke bool) {
		if broke && !slices.Contains(broken, promise) {
			broken = append(broken, promise)
		}
	}
	is("an answer in time", took > inTime)
	interim := 0
	for {
		head, rest, found := strings.Cut(answer, "\r\n\r\n")
		if !found {
			is("an answer", true)
			return broken
		}
		first, fields, _ := strings.Cut(head, "\r\n")
		protocol, status, _ := strings.Cut(first, " ")
		status, _, _ = strings.Cut(status, " ")
		is("a protocol that the client has", p.old && protocol != "HTTP/1.0")
		if status == "101" {
			is("an upgrade that was requested", p.old || !strings.Contains(a[:p.split].String(), switching))
			return broken
		}
		final := !strings.HasPrefix(status, "1")
		is("no headers of a hop", p.carriesHop(fields, final))
		if final {
			is("a real status", len(status) != 3 || status < "200" || status > "599")
			break
		}
		is("no interim answers to old clients", p.old)
		interim++
		answer = rest
	}
	is("few interim answers", interim > mostInterim+1) // one is the server's own, after Expect
	in := bufio.NewReader(strings.NewReader(answer))
	res, err := http.ReadResponse(in, &http.Request{Method: p.method})
	if err != nil {
		return append(broken, "an answer of HTTP")
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body) // the service may break off
	if rest, _ := io.ReadAll(in); len(rest) > 0 {
		is("one answer", true)
	}
	service := res.Header.Get("X-Of") != ""
	is("a real status", service && p.status == 0)
	_, typed := res.Header["Content-Type"]
	is("no invented type", service && p.typeless && typed)
	return broken
}

// namesHop is a Connection that names X-Hop, and closing one that names close, in small letters.
var (
	namesHop = regexp.MustCompile(`\nconnection:[^\r]*\bx-hop\b`)
	closing  = regexp.MustCompile(`\nconnection:[^\r]*\bclose\b`)
)

// carriesHop reports whether headers have one that is for the connection of the service only.
func (p *play) carriesHop(fields string, final bool) bool {
	for line := range strings.SplitSeq(fields, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		switch strings.ToLower(name) {
		case "keep-alive", "proxy-authenticate", "proxy-connection", "te", "upgrade":
			return true
		case "connection", "transfer-encoding", "trailer", "content-length":
			if !final || strings.Contains(strings.ToLower(value), "x-hop") {
				return true
			}
		case "x-hop":
			if !p.sendsHop {
				return true
			}
		}
	}
	return false
}

// TestNothingComesBack lets a service give generated answers to generated requests. Clients get one answer of HTTP, in time,
// without what concerns the service's connection only, and Sluice goes on.
func TestNothingComesBack(t *testing.T) {
	h := newHostile(t)
	seed := seedOf(t)
	begun := time.Now()
	seen := map[string]int{}
	var mu sync.Mutex
	var playing sync.WaitGroup
	numbers := make(chan int)
	total := redistest.Times(t, 2*attacks)
	for range connections {
		playing.Go(func() {
			for number := range numbers {
				p := newGen(seed, number).play()
				answer, took, err := h.perform(p.attack, p.split, number)
				if err != nil {
					t.Error(err)
					continue
				}
				for _, promise := range p.faults(p.attack, answer, took) {
					mu.Lock()
					seen[promise]++
					times := seen[promise]
					mu.Unlock()
					if times > 1 {
						continue
					}
					after := time.Since(begun)
					smallest := h.shrink(&p, promise, total+number)
					t.Errorf("attack %d of %s=%d breaks %q, found after %v:\n%s  is answered with\n%s  and the client gets %d bytes, %q", number, seedEnv, seed, promise, after, quote(smallest[:p.split].String()), quote(fmt.Sprintf("%.1000s", smallest[p.split:])), len(answer), answer[max(0, len(answer)-500):])
				}
			}
		})
	}
	for number := range total {
		numbers <- number
	}
	close(numbers)
	playing.Wait()
	for promise, times := range seen {
		t.Errorf("%d answers break %q", times, promise)
	}
	for _, word := range []string{"panic", "alert", "Text"} { // what services send is nobody's business
		if at := strings.Index(h.sluice.Log(), word); at >= 0 {
			t.Errorf("the log of Sluice has %q:\n%.3000s", word, h.sluice.Log()[at:])
		}
	}
}

// shrink returns the smallest play that still breaks a promise.
func (h *hostile) shrink(p *play, promise string, number int) attack {
	return shrink(p.attack, func(a attack) bool {
		if promise == "an answer in time" {
			return false // each attempt takes long
		}
		answer, took, err := h.perform(a, p.split, number)
		return err == nil && slices.Contains(p.faults(a, answer, took), promise)
	})
}
