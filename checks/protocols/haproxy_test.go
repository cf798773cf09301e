package protocols

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// proxied is HAProxy with Sluice beside it and a service behind it.
type proxied struct {
	t       *testing.T
	dir     string
	url     string
	agent   string // where Sluice listens for HAProxy
	sluice  *process.Sluice
	seen    atomic.Int64 // requests at the service
	limited *http.Client
}

// startProxied starts the programs with the files of the example, on free ports. change may change the file of each name.
func startProxied(t *testing.T, change func(name, text string) string) *proxied {
	t.Helper()
	p := &proxied{t: t, dir: t.TempDir(), limited: &http.Client{Timeout: process.Patience, Transport: client()}}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.seen.Add(1)
		fmt.Fprintf(w, "served marked=%q", r.Header["Sluice-Marked"])
	}))
	t.Cleanup(service.Close)
	ports, err := redistest.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	front := "127.0.0.1:" + ports[0]
	p.agent, p.url = "127.0.0.1:"+ports[1], "http://"+front
	addresses := strings.NewReplacer("127.0.0.1:8000", front, "127.0.0.1:8084", p.agent, "127.0.0.1:3000", service.Listener.Addr().String(),
		// A busy machine answers later than a service would wait.
		"timeout processing 100ms", "timeout processing 10s", "timeout hello 100ms", "timeout hello 5s", "timeout connect 100ms", "timeout connect 5s",
		"inter 500ms", "inter 50ms", "  api: \"off\"\n", "  api: \"off\"\n  admin: \"off\"\n")
	for _, name := range []string{"sluice.yaml", "haproxy.cfg", "sluice-spoe.conf", "sluice.lua"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "examples", "haproxy-spoe", name))
		if err != nil {
			t.Fatal(err)
		}
		changed := addresses.Replace(string(text))
		if change != nil {
			changed = change(name, changed)
		}
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.sluice = serveFile(t, filepath.Join(p.dir, "sluice.yaml"), 1)
	path, err := process.Find("haproxy", "haproxy")
	if err != nil {
		t.Fatal(err)
	}
	haproxy := exec.Command(path, "-db", "-f", "haproxy.cfg")
	haproxy.Dir = p.dir
	process.Start(t, haproxy)
	t.Cleanup(p.limited.CloseIdleConnections)
	process.Eventually(t, "HAProxy's readiness", func() bool { return p.status("/") == http.StatusOK })
	return p
}

// client returns a transport from an address that is not a trusted proxy.
func client() *http.Transport {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	return &http.Transport{DialContext: d.DialContext, MaxIdleConnsPerHost: 50}
}

// get sends a request with headers, which are pairs. The status is 0 without an answer.
func (p *proxied) get(path string, header ...string) (status int, h http.Header, body string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), process.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := p.limited.Do(r)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

func (p *proxied) status(path string, header ...string) int {
	p.t.Helper()
	status, _, _ := p.get(path, header...)
	return status
}

// HAProxy refuses what Sluice denies, with the wait, and clients read what is left.
func TestHAProxy(t *testing.T) {
	t.Parallel()
	p := startProxied(t, nil)
	for i := range 3 {
		status, h, body := p.get("/api/x")
		if want := fmt.Sprintf(`"per-client";r=%d;`, 2-i); status != 200 || !strings.HasPrefix(h.Get("RateLimit"), want) || h.Get("RateLimit-Policy") != `"per-client";q=3;w=3` || body != "served marked=[]" {
			t.Errorf("request %d: %d, %v, %s", i, status, h, body)
		}
	}
	served := p.seen.Load()
	status, h, body := p.get("/api/x")
	if status != 429 || h.Get("Retry-After") != "1" || h.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, `"violated-policies":["per-client"]`) || !strings.HasPrefix(h.Get("RateLimit"), `"per-client";r=0;t=`) {
		t.Errorf("a denial: %d, %v, %s", status, h, body)
	}
	// Other spellings, and what a client says about its address, change nothing.
	for _, c := range []struct {
		path   string
		header []string
		want   int
	}{
		{"/api/%78", nil, 429},
		{"/x/../api/x", nil, 429},
		{"/api/x?q=1", nil, 429},
		{"/api/x", []string{"X-Forwarded-For", "198.51.100.7"}, 429},
		{"//api/x", nil, 400},
		{"/api/x", []string{"X-HTTP-Method-Override", "DELETE"}, 400},
	} {
		if got := p.status(c.path, c.header...); got != c.want {
			t.Errorf("%s %v: %d, want %d", c.path, c.header, got, c.want)
		}
	}
	if got := p.seen.Load(); got != served {
		t.Errorf("%d denied requests reached the service", got-served)
	}
	if got := p.status("/other", "Cookie", strings.Repeat("c", 13_000)); got != 200 {
		t.Errorf("a large header: %d", got)
	}
	if log := p.sluice.Log(); !strings.Contains(log, "edge=spoe") || strings.Contains(log, "WARN") {
		t.Errorf("the log:\n%s", log)
	}
}

// A rule that marks requests marks them through HAProxy, and clients cannot.
func TestHAProxyMarks(t *testing.T) {
	t.Parallel()
	p := startProxied(t, nil)
	for i, want := range []string{`served marked=[]`, `served marked=["heavy"]`} {
		if status, _, body := p.get("/heavy/x", "Sluice-Marked", "forged"); status != 200 || body != want {
			t.Errorf("request %d: %d, %s, want %s", i, status, body, want)
		}
	}
}

// HAProxy names the plan of a request before it reports it, as the documentation says. What a client sends about its plan never counts.
func TestHAProxyPlans(t *testing.T) {
	t.Parallel()
	p := startProxied(t, func(name, text string) string {
		switch name {
		case "sluice.yaml":
			return text + `  - {name: tenants, match: {path: /plans}, key: "header:X-Tenant", limit: {algorithm: token_bucket, rate: 5/d}}
plans: {gold: {tenants: {rate: 50/d}}}
plan_from: "header:X-Plan"
`
		case "sluice-spoe.conf":
			text = strings.Replace(text, "    messages request\n", "    groups requests\n", 1)
			return strings.Replace(text, "    event on-frontend-http-request\n", "\nspoe-group requests\n    messages request\n", 1)
		case "haproxy.cfg":
			const filter = "    filter spoe engine sluice config sluice-spoe.conf\n"
			return strings.Replace(text, filter, filter+`    http-request del-header ^x[^a-z0-9]plan$ -m reg
    http-request set-header X-Plan gold if { req.hdr(X-Tenant) -m str acme }
    http-request send-spoe-group sluice requests
`, 1)
		}
		return text
	})
	quota := func(header ...string) string {
		t.Helper()
		status, h, body := p.get("/plans", header...)
		if status != http.StatusOK {
			t.Errorf("a request with %q gets %d %s", header, status, body)
		}
		return h.Get("RateLimit-Policy")
	}
	const gold, own = `"tenants";q=50;`, `"tenants";q=5;`
	if got := quota("X-Tenant", "acme"); !strings.HasPrefix(got, gold) {
		t.Errorf("a tenant to whom HAProxy gives a plan has %q, want %s", got, gold)
	}
	for i, attack := range [][]string{
		{"X-Plan", "gold"},
		{"x-plan", "gold"},
		{"X-Plan", "gold", "X-Plan", "gold"},
		{"X_Plan", "gold"},
		{"X-Plan", "", "X_PLAN", "gold"},
		{"X-Plan", "gold", "X-Forwarded-For", "127.0.0.1"},
	} {
		if got := quota(append([]string{"X-Tenant", fmt.Sprint("small", i)}, attack...)...); !strings.HasPrefix(got, own) {
			t.Errorf("a client that sends %q has %q, want %s", attack, got, own)
		}
	}
	// A tenant with a plan that forges another one keeps its own.
	if got := quota("X-Tenant", "acme", "X-Plan", "platinum", "X_Plan", "platinum"); !strings.HasPrefix(got, gold) {
		t.Errorf("a tenant that forges a plan has %q, want %s", got, gold)
	}
}

// Many requests at once get one answer each, and the limit holds.
func TestHAProxyUnderLoad(t *testing.T) {
	t.Parallel()
	p := startProxied(t, func(name, text string) string {
		return strings.Replace(text, "rate: 60/m, burst: 3", "rate: 1/h, burst: 100", 1)
	})
	var passed, denied atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 20 {
				switch got := p.status("/api/x"); got {
				case 200:
					passed.Add(1)
				case 429:
					denied.Add(1)
				default:
					t.Errorf("a request gets %d", got)
				}
			}
		})
	}
	all.Wait()
	if passed.Load() != 100 || denied.Load() != 900 {
		t.Errorf("%d pass and %d are denied, want 100 and 900", passed.Load(), denied.Load())
	}
}

// While Sluice is away, the example fails closed, and without one line it fails open. HAProxy finds Sluice again.
func TestHAProxyWithoutSluice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		open bool
		want int
	}{{"closed", false, 503}, {"open", true, 200}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := startProxied(t, func(name, text string) string {
				text = strings.Replace(text, "timeout processing 10s", "timeout processing 500ms", 1)
				const line = "    http-request return status 503 hdr Retry-After 1 hdr Cache-Control no-store unless answered\n"
				if name == "haproxy.cfg" && !strings.Contains(text, line) {
					t.Error("the example does not fail closed")
				}
				if c.open {
					return strings.Replace(text, line, "", 1)
				}
				return text
			})
			p.sluice.Kill()
			if got := p.status("/other"); got != c.want {
				t.Errorf("without Sluice: %d, want %d", got, c.want)
			}
			if _, h, _ := p.get("/other"); !c.open && h.Get("Retry-After") != "1" {
				t.Errorf("without Sluice: %v", h)
			}
			serveFile(t, filepath.Join(p.dir, "sluice.yaml"), 1)
			process.Eventually(t, "decisions of the new Sluice", func() bool {
				_, h, _ := p.get("/api/x")
				return h.Get("RateLimit") != ""
			})
		})
	}
}

// An agent that takes connections and never answers costs a request the processing timeout, and no more.
func TestHAProxyWithSilentAgent(t *testing.T) {
	t.Parallel()
	p := startProxied(t, func(_, text string) string {
		return strings.NewReplacer("timeout processing 10s", "timeout processing 200ms", "option spop-check\n", "\n", " check inter 50ms", "").Replace(text)
	})
	p.sluice.Kill()
	ln, err := net.Listen("tcp", p.agent)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close() //nolint:gocritic // the test has few connections, and they stay open
		}
	}()
	began := time.Now()
	if got := p.status("/other"); got != 503 {
		t.Errorf("with a silent agent: %d", got)
	}
	if took := time.Since(began); took > process.Patience/2 {
		t.Errorf("an answer took %v", took)
	}
}

// A client whose limit is used up sends its request in other spellings, and with headers by which other gateways describe
// requests. None reaches the service, and no other client pays for it.
func TestHAProxyAttacks(t *testing.T) {
	t.Parallel()
	p := startProxied(t, func(_, text string) string { return strings.Replace(text, "rate: 60/m, burst: 3", "rate: 3/h", 1) })
	for range 3 {
		if got := p.status("/api/x"); got != http.StatusOK {
			t.Fatalf("a request gets %d", got)
		}
	}
	served := p.seen.Load()
	host := strings.TrimPrefix(p.url, "http://")
	targets := []string{
		"/api/x", "/api/x?q", "/api/%78", "/%61pi/x", "/./api/x", "/x/../api/x", "/x/%2e%2e/api/x", "//api/x", "/api//x", "/api/x/", "/api/x%20", "/api/x#f", "/api%2fx",
		"http://" + host + "/api/x", "http://free.example/api/x", "/api/x%", "/api/x;v=1", "\\api\\x", "/api/x%00",
	}
	forged := []string{
		"", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-For: 203.0.113.7, 127.0.0.1", "X-Real-IP: 203.0.113.7", "Forwarded: for=203.0.113.7",
		"X-Original-URI: /free", "X-Original-URL: /free", "X-Rewrite-URL: /free", "X-Forwarded-Uri: /free", "X-HTTP-Method-Override: DELETE", "Host: free.example",
		"Connection: X-Forwarded-For", "Cookie: " + strings.Repeat("c", 14_000), strings.Repeat("X-A: b\r\n", 90) + "X-A: b",
		"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: Upgrade, HTTP2-Settings",
	}
	try := func(request string) {
		t.Helper()
		c, err := client().DialContext(t.Context(), "tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(process.Patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request); err != nil {
			return // HAProxy has refused the beginning
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return
		}
		_ = res.Body.Close()
		if got := p.seen.Load(); got != served && res.StatusCode == http.StatusOK {
			t.Errorf("got past the rule, with %d:\n%.200s", res.StatusCode, request)
			served = got
		}
	}
	for _, target := range targets {
		for _, method := range []string{"GET", "get", "POST", "G\tET"} {
			try(method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
		try("GET " + target + " HTTP/1.0\r\n\r\n")
	}
	for _, lines := range forged {
		if lines != "" {
			lines += "\r\n"
		}
		try("GET /api/x HTTP/1.1\r\nHost: " + host + "\r\n" + lines + "\r\n")
	}
	p.limited.Transport = &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 3)}}).DialContext}
	if got := p.status("/api/x"); got != http.StatusOK {
		t.Errorf("another client gets %d", got)
	}
}
