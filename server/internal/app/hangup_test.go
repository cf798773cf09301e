package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/listen/web"
)

// dependent are rules that depend on the answer.
const dependent = `
rules:
  - {name: failed, match: {path: /login}, key: [global], limit: {algorithm: fixed_window, rate: 3/d}, count_status: [401]}
  - {name: leases, match: {path: /work}, key: [global], limit: {algorithm: concurrency, max: 1}}
  - {name: short, match: {path: /short}, key: [global], limit: {algorithm: concurrency, max: 1, ttl: 1s}}
  - {name: sizes, match: {path: /size}, key: [global], limit: {algorithm: fixed_window, rate: 1000000/d}, cost: {source: response_bytes, estimate: 1000}}
`

// left returns what is left for a path.
func (r *running) left(path string) int64 {
	r.t.Helper()
	return r.leftFor(http.MethodGet, path)
}

// leftFor returns what is left for a method and a path.
func (r *running) leftFor(method, path string) int64 {
	r.t.Helper()
	d := r.engine.decider
	v := d.Policy().Peek(r.t.Context(), d.Store(), &policy.Attributes{Method: method, Path: path})
	return v.Results[0].Decision.Remaining
}

// hangUp sends a request, and leaves as soon as the service has it. It reports whether the service got it, or it was
// denied.
func (r *running) hangUp(service *external, request string) (forwarded bool) {
	r.t.Helper()
	before := service.figures().Arrived
	c, in := r.connect(Proxy)
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		r.t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		line, _ := in.ReadString('\n')
		answered <- line
	}()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case line := <-answered:
			if strings.Contains(line, " 429 ") {
				return false
			}
			answered <- ""
		default:
		}
		if service.figures().Arrived > before {
			return true
		}
	}
	r.t.Fatal("the request neither arrived nor was denied")
	return false
}

func get(target string) string { return "GET " + target + " HTTP/1.1\r\nHost: shop.example\r\n\r\n" }

// TestHangingUpBuysNoAttempts tries twenty passwords, and never waits for the answer. The service is in another
// process, and works on.
func TestHangingUpBuysNoAttempts(t *testing.T) {
	t.Parallel()
	service := startService(t)
	r := start(t, parse(t, free+"upstream: "+service.url+dependent), nil)
	for range 20 {
		r.hangUp(service, get("/login?status=401&work=200"))
	}
	if got := service.figures().Arrived; got != 3 {
		t.Errorf("%d of 20 attempts reached the service; the limit is 3", got)
	}
	eventually(t, "the end of the service's work", func() bool { return service.figures().Working == 0 && r.upstream.abandoned.Count() == 0 })
	if got := r.left("/login"); got != 0 {
		t.Errorf("%d attempts are left", got)
	}
}

// TestAnswersCountWithoutTheirClients leaves before answers that do not count: they are given back when they come.
func TestAnswersCountWithoutTheirClients(t *testing.T) {
	t.Parallel()
	service := startService(t)
	r := start(t, parse(t, free+"upstream: "+service.url+dependent), nil)
	for range 3 {
		if !r.hangUp(service, get("/login?status=200&work=300")) {
			t.Fatal("a request was denied")
		}
	}
	if got := r.left("/login"); got != 0 {
		t.Errorf("while the service works, %d attempts are left", got)
	}
	eventually(t, "the return of all attempts", func() bool { return r.left("/login") == 3 })
	if got := r.figure("sluice_abandoned_requests"); got != "0" {
		t.Errorf("abandoned requests: %s", got)
	}
}

// TestLeasesOutlastTheirClients leaves again and again: the service never works on more than the limit lets it.
func TestLeasesOutlastTheirClients(t *testing.T) {
	t.Parallel()
	service := startService(t)
	r := start(t, parse(t, free+"upstream: "+service.url+dependent), nil)
	for _, target := range []string{"/work?work=300", "/work?first=1&work=300"} {
		for range 10 {
			r.hangUp(service, get(target))
		}
		eventually(t, "a free unit", func() bool { return r.status(Proxy, "/work") == http.StatusOK })
	}
	if got := service.figures(); got.Most != 1 || got.Working != 0 {
		t.Errorf("the service worked on %d requests at once, and still on %d", got.Most, got.Working)
	}
}

// TestLeasesUntilTheirTTL leaves where no connection can be spared to wait for the answer.
func TestLeasesUntilTheirTTL(t *testing.T) {
	service := startService(t)
	r := start(t, parse(t, free+"upstream: {url: '"+service.url+"', max_connections: 1}"+dependent), nil)
	began := time.Now()
	if !r.hangUp(service, get("/short?work=700")) {
		t.Fatal("the request was denied")
	}
	eventually(t, "a free unit", func() bool { return r.status(Proxy, "/short") == http.StatusOK })
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("the unit was free after %v, before its TTL", took)
	}
	if got := service.figures().Most; got != 1 {
		t.Errorf("the service worked on %d requests at once", got)
	}
}

// TestUnknownOutcomesStayCharged breaks off requests in all the ways that a client has.
func TestUnknownOutcomesStayCharged(t *testing.T) {
	t.Parallel()
	service := startService(t)
	const chunked = "Host: shop.example\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, x := range map[string]struct {
		path, request string
		want          int64
	}{
		"within the body":        {"/login", "POST /login?status=200 HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 10\r\n\r\n123", 2},
		"a malformed chunk":      {"/login", "POST /login?status=200 HTTP/1.1\r\n" + chunked + "3\r\nabc\r\nzz\r\n", 2},
		"a stalled body":         {"/login", "POST /login?status=200&work=60000 HTTP/1.1\r\n" + chunked + "3\r\nabc\r\n", 2},
		"before the permission":  {"/login", "POST /login?status=401&work=300 HTTP/1.1\r\nExpect: 100-continue\r\n" + chunked, 2},
		"within the answer":      {"/size", get("/size?first=5&work=300&bytes=2"), 1_000_000 - 7},      // which comes to its end
		"answer, unobserved":     {"/size", get("/size?first=5&work=60000&bytes=2"), 1_000_000 - 1000}, // works until it is canceled
		"size, unobserved":       {"/size", get("/size?bytes=2&work=60000"), 1_000_000 - 1000},
		"status, unobserved":     {"/login", get("/login?status=200&work=60000"), 2},
		"within a large answer":  {"/size", get("/size?first=5&bytes=8000000&work=300"), -1},
		"before a small answer":  {"/size", get("/size?bytes=5&work=300"), 1_000_000 - 5},
		"within an event stream": {"/size", get("/size?type=text/event-stream&first=5&work=300&bytes=7000"), -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := service.url
			if strings.HasSuffix(name, "unobserved") {
				upstream = "{url: '" + upstream + "', max_connections: 1}"
			}
			r := start(t, parse(t, free+"upstream: "+upstream+dependent), func(o *Options) { o.Stall = 200 * time.Millisecond })
			c, in := r.connect(Proxy)
			id := strings.NewReplacer(" ", "-", ",", "").Replace(name)
			named := strings.Replace(x.request, "?", "?name="+id+"&", 1)
			if _, err := io.WriteString(c, named); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the charge", func() bool { return r.left(x.path) < map[string]int64{"/login": 3, "/size": 1_000_000}[x.path] })
			switch name {
			case "within the body", "size, unobserved", "status, unobserved", "before the permission", "before a small answer":
				eventually(t, "its arrival", func() bool { return service.figures().ByName[id] > 0 })
			case "within the answer", "answer, unobserved", "within a large answer", "within an event stream":
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.ReadFull(res.Body, make([]byte, 5))
				c.Close()
				res.Body.Close()
				if err != nil {
					t.Fatal(err)
				}
			case "a malformed chunk", "a stalled body":
				if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, " 40") {
					t.Fatal(line, err)
				}
			}
			c.Close()
			r.servers.All()[0].Protocol.(*web.Protocol).Wait()
			got := r.left(x.path)
			if x.want >= 0 && got != x.want || x.want < 0 && got > 1_000_000-1000 {
				t.Errorf("%d are left; want %d", got, x.want)
			}
		})
	}
}

// TestResetStreamsStayCharged takes back HTTP/2 requests that the service has.
func TestResetStreamsStayCharged(t *testing.T) {
	t.Parallel()
	service := startService(t)
	a := newAuthority(t)
	cert, key := a.pair("front")
	r := start(t, parse(t, fmt.Sprintf(`
version: 1
listen: {proxy: {address: '127.0.0.1:0', tls: {cert: %q, key: %q}}, api: '127.0.0.1:0', admin: '127.0.0.1:0'}
upstream: %s`, cert, key, service.url)+dependent), nil)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool()}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	for range 20 {
		before := service.figures().Arrived
		ctx, leave := context.WithCancel(t.Context())
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL(Proxy)+"/login?status=401&work=200", nil)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan int)
		go func() {
			res, err := tr.RoundTrip(q)
			if err != nil {
				ended <- 0
				return
			}
			res.Body.Close()
			ended <- res.StatusCode*10 + res.ProtoMajor
		}()
		got := -1
		for got < 0 && service.figures().Arrived == before {
			select {
			case got = <-ended:
			default:
			}
		}
		leave()
		if got < 0 {
			got = <-ended
		}
		if got != 0 && got != 4292 {
			t.Fatalf("got %d", got)
		}
	}
	if got := service.figures().Arrived; got != 3 {
		t.Errorf("%d of 20 attempts reached the service; the limit is 3", got)
	}
}

// TestUpgradesKeepTheirEstimate upgrades a connection: the size of the answer is unknown.
func TestUpgradesKeepTheirEstimate(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"upstream: "+behind(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, c)
	})+dependent), nil)
	c, in := r.connect(Proxy)
	fmt.Fprint(c, "GET /size HTTP/1.1\r\nHost: shop.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close() // the connection remains
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the upgrade got status %d", res.StatusCode)
	}
	fmt.Fprint(c, "echo")
	if _, err := io.ReadFull(in, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	r.servers.All()[0].Protocol.(*web.Protocol).Wait()
	if got := r.left("/size"); got != 1_000_000-1000 {
		t.Errorf("%d are left", got)
	}
}
