package app

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder is a service that records the heads of requests as they arrive, and answers each with 200.
// A request that has an Upgrade header gets 101.
type recorder struct {
	url   string
	mu    sync.Mutex
	heads []string
}

// newRecorder starts a recorder.
func newRecorder(t *testing.T) *recorder {
	t.Helper()
	var config net.ListenConfig
	ln, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &recorder{url: "http://" + ln.Addr().String()}
	var serving sync.WaitGroup
	var conns []net.Conn
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			conns = append(conns, c)
			s.mu.Unlock()
			serving.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		s.mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		s.mu.Unlock()
		serving.Wait()
	})
	return s
}

func (s *recorder) serve(c net.Conn) {
	defer c.Close()
	var raw bytes.Buffer
	in := bufio.NewReaderSize(io.TeeReader(c, &raw), 16)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		head, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
		_, _ = io.Copy(io.Discard, r.Body)
		for name, values := range r.Trailer {
			head += "\r\ntrailer " + name + ": " + strings.Join(values, ", ")
		}
		raw.Reset()
		s.mu.Lock()
		s.heads = append(s.heads, head)
		s.mu.Unlock()
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		if protocol := r.Header.Get("Upgrade"); protocol != "" {
			answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\n"
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// take returns the heads since the last call.
func (s *recorder) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	heads := s.heads
	s.heads = nil
	return heads
}

// raw sends text to a listener, and returns the statuses of the answers on that connection. It reads as
// many answers as are wanted, or up to the end of the connection.
func (r *running) raw(name, text string, wanted int) (statuses []int, closed bool) {
	r.t.Helper()
	c, in := r.connect(name)
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		r.t.Fatal(err)
	}
	for len(statuses) < wanted {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return statuses, true
		}
		statuses = append(statuses, res.StatusCode)
		if res.StatusCode == http.StatusSwitchingProtocols {
			return statuses, false
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		closed = closed || res.Close
	}
	return statuses, closed
}

// one sends one request of some lines, and returns its status and what the service got.
func (r *running) one(s *recorder, lines ...string) (status int, head string) {
	r.t.Helper()
	statuses, _ := r.raw(Proxy, strings.Join(lines, "\r\n")+"\r\n\r\n", 1)
	if len(statuses) != 1 {
		r.t.Fatalf("%q: %d answers", lines, len(statuses))
	}
	heads := s.take()
	if len(heads) > 1 {
		r.t.Fatalf("%q: the service got %d requests", lines, len(heads))
	}
	return statuses[0], strings.Join(heads, "")
}

// A method in another spelling reaches no service that runs it as POST: it is refused. The API refuses it too.
func TestSpellingsOfMethodsAreRefused(t *testing.T) {
	t.Parallel()
	s := newRecorder(t)
	r := start(t, parse(t, free+"upstream: "+s.url+`
rules:
  - name: login
    match: {path: /login, method: POST}
    key: global
    limit: {algorithm: token_bucket, rate: 1/h, burst: 1}
  - name: expression
    match: {path: /expression, if: 'method == "POST"'}
    key: global
    limit: {algorithm: token_bucket, rate: 1/h, burst: 1}
`), nil)
	for _, path := range []string{"/login", "/expression"} {
		for _, c := range []struct {
			method string
			want   int
		}{{"POST", 200}, {"POST", 429}, {"post", 400}, {"Post", 400}, {"pOST", 400}, {"POSt", 400}, {"GET", 200}, {"get", 400}, {"PURGE", 200}, {"MADE-UP", 200}, {"made-up", 400}} {
			status, head := r.one(s, c.method+" "+path+" HTTP/1.1", "Host: a.example", "Content-Length: 0")
			if status != c.want || (head != "") != (c.want == 200) {
				t.Errorf("%s %s answers %d, and the service got %q; want %d", c.method, path, status, head, c.want)
			}
		}
	}
	for method, want := range map[string]int{"post": 400, "Post": 400, "PO ST": 400, "POST": 200, "MADE-UP": 200, strings.Repeat("A", 65): 400} {
		res, text := r.send(API, http.MethodPost, "/v1/check", fmt.Sprintf(`{"method": %q, "path": "/login"}`, method))
		if res.StatusCode != want || want == 400 && !strings.Contains(text, `"field":"method"`) {
			t.Errorf("the API answers %d to the method %q: %s", res.StatusCode, method, text)
		}
	}
}

// Methods that a client makes up have one budget together.
func TestMadeUpMethodsShareABudget(t *testing.T) {
	t.Parallel()
	s := newRecorder(t)
	r := start(t, parse(t, free+"upstream: "+s.url+`
rules:
  - name: each
    match: {path: /each}
    key: method
    limit: {algorithm: token_bucket, rate: 1/h, burst: 1}
  - name: own
    match: {path: /own, method: [MINE, YOURS]}
    key: method
    limit: {algorithm: token_bucket, rate: 1/h, burst: 1}
`), nil)
	for _, c := range []struct {
		line string
		want int
	}{
		{"AAA /each", 200},
		{"BBB /each", 429},
		{"OTHER /each", 429},
		{"GET /each", 200},
		{"PROPFIND /each", 200},
		{"PURGE /each", 200},
		{"PURGE /each", 429},
		{"MINE /own", 200},
		{"MINE /own", 429},
		{"YOURS /own", 200},
	} {
		if status, _ := r.one(s, c.line+" HTTP/1.1", "Host: a.example"); status != c.want {
			t.Errorf("%s answers %d, want %d", c.line, status, c.want)
		}
	}
	_, text := r.send(API, http.MethodPost, "/v1/peek", `{"rule": "each", "key": ["CCC"]}`)
	if !strings.Contains(text, `"allowed":false`) {
		t.Errorf("the key of another made-up method: %s", text)
	}
	if res, text := r.send(API, http.MethodPost, "/v1/peek", `{"rule": "each", "key": ["get"]}`); res.StatusCode != http.StatusBadRequest || !strings.Contains(text, "upper case") {
		t.Errorf("a key in lower case answers %d: %s", res.StatusCode, text)
	}
}

// Headers by which services replace the method reach no service, in any spelling, as header or trailer.
func TestMethodOverridesAreRemoved(t *testing.T) {
	t.Parallel()
	names := []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "x_http_method_override", "X.Method-Override"}
	lines := []string{"POST / HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked", "Trailer: " + strings.Join(names, ", ")}
	for _, name := range names {
		lines = append(lines, name+": DELETE")
	}
	lines = append(lines, "", "1", "a", "0", names[0]+": DELETE", names[3]+": DELETE")
	for setting, want := range map[string]int{"": 0, ", method_override: true": len(names)} {
		s := newRecorder(t)
		r := start(t, parse(t, free+"upstream: {url: '"+s.url+"'"+setting+"}"+roomy), nil)
		status, head := r.one(s, lines...)
		if got := strings.Count(head, ": DELETE"); status != 200 || got != want {
			t.Errorf("%q: status %d, and the service got %d of the headers, want %d:\n%s", setting, status, got, want, head)
		}
	}
}

// Only upgrades to the protocols of the configuration are tunnelled. Others are plain requests.
func TestOtherUpgradesAreIgnored(t *testing.T) {
	t.Parallel()
	const socket = "GET /socket HTTP/1.1"
	for _, c := range []struct {
		setting string
		lines   []string
		want    string // the protocol that the service gets
	}{
		{"", []string{socket, "Connection: Upgrade", "Upgrade: websocket"}, "websocket"},
		{"", []string{socket, "Connection: keep-alive, upgrade", "Upgrade: WebSocket"}, "WebSocket"},
		{"", []string{socket, "Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"}, ""},
		{"", []string{socket, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"}, ""},
		{"", []string{socket, "Connection: Upgrade", "Upgrade: h2c, websocket", "http2_settings: AAMAAABkAAQAAP__"}, ""},
		{"", []string{socket, "Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c"}, ""},
		{"", []string{socket, "Connection: Upgrade", "Upgrade: h2c", "Upgrade: websocket"}, ""},
		{"", []string{socket, "Connection: Upgrade", "Upgrade: TLS/1.0"}, ""},
		{"", []string{"POST / HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket", "Content-Length: 1", "", "a"}, ""},
		{"", []string{socket, "Upgrade: websocket"}, ""}, // not named in Connection
		{"", []string{"GET /socket HTTP/1.0", "Connection: Upgrade", "Upgrade: websocket"}, ""},
		{", upgrades: none", []string{socket, "Connection: Upgrade", "Upgrade: websocket"}, ""},
		{", upgrades: [IRC/6.9]", []string{socket, "Connection: Upgrade", "Upgrade: irc/6.9"}, "irc/6.9"},
		{", upgrades: [IRC/6.9]", []string{socket, "Connection: Upgrade", "Upgrade: websocket"}, ""},
	} {
		s := newRecorder(t)
		r := start(t, parse(t, free+"upstream: {url: '"+s.url+"'"+c.setting+"}"+roomy), nil)
		status, head := r.one(s, slices.Insert(slices.Clone(c.lines), 1, "Host: a.example")...)
		want := 200
		if c.want != "" {
			want = 101
		}
		lower := strings.ToLower(head)
		if status != want || strings.Contains(lower, "settings") || strings.Contains(lower, "upgrade:") != (c.want != "") || !strings.Contains(head, c.want) {
			t.Errorf("%s %q answers %d, and the service got\n%s", c.setting, c.lines, status, head)
		}
	}
}

// A host that is not host[:port] is refused, in a header and in the target. Rules match all spellings of a host.
func TestSpellingsOfHosts(t *testing.T) {
	t.Parallel()
	s := newRecorder(t)
	r := start(t, parse(t, free+"upstream: "+s.url+`
rules:
  - {name: exact, match: {host: [api.example.com, "2001:db8::1"]}, always: true}
  - {name: below, match: {host: "*.wild.example.com"}, always: true}
`), nil)
	check := func(want int, host string) {
		t.Helper()
		for _, lines := range [][]string{
			{"GET /x HTTP/1.1", "Host: " + host},
			{"GET http://" + host + "/x HTTP/1.1", "Host: other.example.com"},
		} {
			if status, head := r.one(s, lines...); status != want || head != "" {
				t.Errorf("%q answers %d, and the service got %q; want %d", lines, status, head, want)
			}
		}
		body := fmt.Sprintf(`{"host": %q}`, host)
		res, text := r.send(API, http.MethodPost, "/v1/check?status=429", body)
		if res.StatusCode != want || want == 400 && !strings.Contains(text, `"field":"host"`) {
			t.Errorf("the API answers %d to %s: %s", res.StatusCode, body, text)
		}
	}
	for _, host := range []string{
		"api.example.com", "API.Example.com", "api.example.com:80", "api.example.com:", "api.example.com.", "api.example.com.:80",
		"a.wild.example.com", "a.WILD.example.com.:8080", "[2001:db8::1]", "[2001:DB8:0::1]:80",
	} {
		check(http.StatusTooManyRequests, host)
	}
	for _, host := range []string{
		"api.example.com:80:80", "api.example.com:80:", "::", ":80", ":", ".", "..", "api.example.com..", ".api.example.com", "api..example.com",
		"api.example.com,other", "api.example.com:080000", "api.example.com:65536", "api.example.com:8o", "[2001:db8::1]80", "[2001:db8::1", "2001:db8::1",
		"[192.0.2.1]", "[api.example.com]", "api.example.com;a", "api.example.com%2e", "api.example.com:80[", strings.Repeat("a.", 128) + "a.wild.example.com",
	} {
		check(http.StatusBadRequest, host)
	}
	// Others get the one spelling of their host.
	for host, want := range map[string]string{"Other.Example:8080": "other.example:8080", "other.example.:": "other.example", "[2001:DB8::2]:80": "[2001:db8::2]:80"} {
		status, head := r.one(s, "GET / HTTP/1.1", "Host: "+host)
		if status != 200 || !strings.Contains(head, "\r\nHost: "+want+"\r\n") || !strings.Contains(head+"\r\n", "X-Forwarded-Host: "+want+"\r\n") {
			t.Errorf("%s answers %d, and the service got\n%s", host, status, head)
		}
	}
}

// Services disagree about the end of a path with a control character. The proxy and the decision API refuse it.
func TestControlCharactersAreRefused(t *testing.T) {
	t.Parallel()
	s := newRecorder(t)
	r := start(t, parse(t, free+"upstream: "+s.url+"\nrules: [{name: admin, match: {path: /admin/**}, always: true}]"), nil)
	for path, want := range map[string]int{"/admin": 429, "/admin%20": 200, "/admin%00": 400, "/admin%2500": 400, "/admin%0a": 400, "/%7F": 400} {
		status, head := r.one(s, "GET "+path+" HTTP/1.1", "Host: www.example.com")
		if status != want || (head != "") != (want == 200) {
			t.Errorf("%s answers %d, and the service got %q", path, status, head)
		}
		res, text := r.send(API, http.MethodPost, "/v1/check", `{"path": "`+path+`"}`)
		if (res.StatusCode == http.StatusBadRequest) != (want == http.StatusBadRequest) || want == http.StatusBadRequest && !strings.Contains(text, `"field":"path"`) {
			t.Errorf("the API answers %d to %s: %s", res.StatusCode, path, text)
		}
	}
}

// A folded line without text adds a space to a header, which services do not see.
func TestFoldedLines(t *testing.T) {
	t.Parallel()
	s := newRecorder(t)
	r := start(t, parse(t, free+"upstream: "+s.url+"\nrules: [{name: free, match: {header: {X-Plan: free}}, always: true}, {name: user, key: 'header:X-User', limit: {algorithm: fixed_window, rate: 1/h}}]"), nil)
	for _, c := range []struct {
		line string
		want int
	}{
		{"X-Plan: free", 429},
		{"X-Plan: free\r\n ", 429},
		{"X-Plan:\r\n free\r\n \r\n\t", 429},
		{"X-User: eve", 200},
		{"X-User: eve", 429},
		{"X-User: eve\r\n ", 400},
		{"X-User:\r\n eve", 429},
	} {
		if status, head := r.one(s, "GET / HTTP/1.1", "Host: www.example.com", c.line); status != c.want || (head != "") != (c.want == 200) {
			t.Errorf("%q answers %d, and the service got %q", c.line, status, head)
		}
	}
}

// Rules match a request without a host by the name under which the service gets it.
func TestRequestsWithoutHost(t *testing.T) {
	t.Parallel()
	s := newRecorder(t)
	r := start(t, parse(t, free+"upstream: "+s.url+"\nrules: [{name: own, match: {host: 127.0.0.1}, always: true}]"), nil)
	for _, lines := range [][]string{{"GET / HTTP/1.0"}, {"GET / HTTP/1.1", "Host:"}, {"GET / HTTP/1.0", "Host: "}} {
		if status, head := r.one(s, lines...); status != 429 || head != "" {
			t.Errorf("%q answers %d, and the service got %q", lines, status, head)
		}
	}
}

// A host of a megabyte takes no longer than others.
func TestLongHostsAreCheap(t *testing.T) {
	r := start(t, parse(t, free+"rules: [{name: below, match: {host: '*.example.com'}, always: true}]"), nil)
	began := time.Now()
	res, text := r.send(API, http.MethodPost, "/v1/check", `{"host": "`+strings.Repeat("a.", 450_000)+`example.com"}`)
	if took := time.Since(began); res.StatusCode != http.StatusBadRequest || took > 2*time.Second {
		t.Errorf("answers %d after %v: %.200s", res.StatusCode, took, text)
	}
}

// OPTIONS * is decided by rules, and reaches the service as it is. No other method has that target.
func TestOptionsOfTheWholeService(t *testing.T) {
	t.Parallel()
	s := newRecorder(t)
	r := start(t, parse(t, free+"upstream: "+s.url+`/base
rules: [{name: options, match: {method: OPTIONS}, key: global, limit: {algorithm: token_bucket, rate: 1/h, burst: 1}}]`), nil)
	status, head := r.one(s, "OPTIONS * HTTP/1.1", "Host: a.example")
	if status != 200 || !strings.HasPrefix(head, "OPTIONS * HTTP/1.1\r\n") {
		t.Errorf("the first answers %d, and the service got %q", status, head)
	}
	for _, line := range []string{"OPTIONS *", "OPTIONS /"} {
		if status, head := r.one(s, line+" HTTP/1.1", "Host: a.example"); status != 429 || head != "" {
			t.Errorf("%s answers %d, and the service got %q", line, status, head)
		}
	}
	for _, method := range []string{"GET", "POST", "options"} {
		if status, head := r.one(s, method+" * HTTP/1.1", "Host: a.example"); status != 400 || head != "" {
			t.Errorf("%s * answers %d, and the service got %q", method, status, head)
		}
	}
}

// A request with both a Transfer-Encoding and a Content-Length ends its connection, so that nothing behind
// it counts as a request. Other requests do not.
func TestAmbiguousFramingEndsTheConnection(t *testing.T) {
	t.Parallel()
	s := newRecorder(t)
	r := start(t, parse(t, free+"upstream: "+s.url+roomy), nil)
	const (
		chunked = "Transfer-Encoding: chunked\r\n"
		body    = "\r\n1\r\na\r\n0\r\n\r\n"
		next    = "GET /next HTTP/1.1\r\nHost: a.example\r\n\r\n"
		first   = "POST /first HTTP/1.1\r\nHost: a.example\r\n"
	)
	long := strings.Repeat("X-Filler: "+strings.Repeat("a", 500)+"\r\n", 20)
	for name, c := range map[string]struct {
		text   string
		closed bool
	}{
		"both":                   {first + "Content-Length: 3\r\n" + chunked + body + next, true},
		"both, the other way":    {first + chunked + "content-length: 3\r\n" + body + next, true},
		"both, in a long header": {first + long + "CONTENT-LENGTH: 3\r\n" + long + chunked + body + next, true},
		"chunked":                {first + chunked + body + next, false},
		"a length":               {first + "Content-Length: 3\r\n\r\nabc" + next, false},
		"a length, then chunked": {first + "Content-Length: 3\r\n\r\nabc" + first + chunked + body, false},
		"HTTP/1.0, chunked":      {"POST /first HTTP/1.0\r\nConnection: keep-alive\r\n" + chunked + body + next, true},
		"HTTP/1.0, hidden":       {"POST /first HTTP/1.0\r\nConnection: keep-alive\r\n" + chunked + "\r\n" + next, true},
		"HTTP/1.0, both":         {"POST /first HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n" + chunked + body + next, true},
		"a length, then both":    {first + "Content-Length: 3\r\n\r\nabc" + first + "Content-Length: 3\r\n" + chunked + body, true},
	} {
		s.take()
		statuses, closed := r.raw(Proxy, c.text, 2)
		heads := s.take()
		wanted := 2
		if c.closed && !strings.Contains(name, "then") {
			wanted = 1
		}
		if closed != c.closed || len(statuses) != wanted || len(heads) != wanted || !slices.Equal(slices.Compact(statuses), []int{200}) {
			t.Errorf("%s: answered %v, closed %v, and the service got %d requests", name, statuses, closed, len(heads))
		}
	}
}

// A request whose Upgrade is not text is refused, also if its answer decides what it costs. Nothing is charged for it then.
func TestUnreadableUpgradesCostNothing(t *testing.T) {
	t.Parallel()
	s := newRecorder(t)
	r := start(t, parse(t, free+"upstream: "+s.url+`
rules: [{name: sizes, key: client_ip, limit: {algorithm: fixed_window, rate: 1000/d}, cost: {source: response_bytes, estimate: 600}}]`), nil)
	for range 3 {
		status, head := r.one(s, "GET / HTTP/1.1", "Host: a.example", "Connection: upgrade", "Upgrade: web\xffsocket")
		if status != http.StatusBadRequest || head != "" {
			t.Errorf("answered %d, and the service got %q", status, head)
		}
	}
}

// Headers that name the client or replace the path reach the service only from trusted proxies.
func TestHeadersOfProxiesAreRemovedFromClients(t *testing.T) {
	t.Parallel()
	always := []string{"X-Real-IP: 6.6.6.6", "X-Forwarded-For: 6.6.6.6", "X_Forwarded_For: 6.6.6.6", "Forwarded: for=6.6.6.6"}
	trusted := []string{
		"True-Client-IP", "CF-Connecting-IP", "CF_Connecting_IP", "X-Client-IP", "x.client.ip", "X-Cluster-Client-IP", "Fastly-Client-IP", "Fly-Client-IP",
		"X-Original-Forwarded-For", "X-Forwarded", "Forwarded-For", "Client-IP", "X-Remote-Addr", "Remote-Addr", "X-Envoy-External-Address", "X-Azure-ClientIP",
		"X-Original-URL", "X-Rewrite-URL", "SCRIPT_NAME", "Script-Name", "PATH_INFO", "X-HTTP-Host-Override", "X-Original-Host",
	}
	lines := []string{"GET / HTTP/1.1", "Host: a.example", "X-Application: 6.6.6.6"}
	lines = append(lines, always...)
	for _, name := range trusted {
		lines = append(lines, name+": 6.6.6.6")
	}
	for setting, want := range map[string]int{"": 1, "trusted_proxies: [10.0.0.0/8]\n": 1, "trusted_proxies: [127.0.0.0/8]\n": 1 + len(trusted)} {
		s := newRecorder(t)
		r := start(t, parse(t, free+setting+"upstream: "+s.url+roomy), nil)
		status, head := r.one(s, lines...)
		var got []string
		for line := range strings.SplitSeq(head, "\r\n") {
			if name, value, _ := strings.Cut(line, ": "); value == "6.6.6.6" && name != "X-Forwarded-For" && name != "X-Real-Ip" {
				got = append(got, name)
			}
		}
		if status != 200 || len(got) != want || strings.Contains(head, "for=") {
			t.Errorf("%q: the service got %d of the headers, want %d:\n%s", setting, len(got), want, head)
		}
	}
}

// With an upstream that has a path, no request leaves that path, whatever the service takes for two dots. Rules for
// /login would not match "/../v1/login".
func TestDotsDoNotLeaveThePathOfTheUpstream(t *testing.T) {
	t.Parallel()
	s := newRecorder(t)
	root := start(t, parse(t, free+"upstream: "+s.url+"/"+roomy), nil)
	if status, head := root.one(s, "GET /a/../b HTTP/1.1", "Host: a.example"); status != 200 || !strings.HasPrefix(head, "GET /a/../b ") {
		t.Errorf("without a path the answer is %d, and the service got %q", status, head)
	}
	r := start(t, parse(t, free+"upstream: "+s.url+"/v1\nrules: [{name: login, match: {path: /login}, always: true}]"), nil)
	for target, want := range map[string]int{
		"/../v1/login": 400, "/%2e%2e/v1/login": 400, "/x/../../v1/login": 400, "/..%2fv1/login": 400, "/..;a/v1/login": 400, "/.%2e%5cv1/login": 400, "/%252e./v1/login": 400,
		"/x/%2e%2e%252fv1/login": 400, "/%252e%252e/100%25": 400, "/x/..": 400, "/login": 429, "/%2e/login": 429, "/a..b/...": 200, "/100%25/%C3%A9/.a": 200,
	} {
		if status, head := r.one(s, "GET "+target+" HTTP/1.1", "Host: a.example"); status != want || (head != "") != (want == 200) {
			t.Errorf("%s answers %d, and the service got %q; want %d", target, status, head, want)
		}
	}
}

// An exception holds only for a path that each service takes for an excepted one, whether or not it merges slashes. The
// service never gets two slashes at the beginning.
func TestSlashesReachNoException(t *testing.T) {
	t.Parallel()
	s := newRecorder(t)
	r := start(t, parse(t, free+"upstream: "+s.url+"\nrules: [{name: closed, match: {path: /area/**, unless: {path: /area/open/**}}, always: true}]"), nil)
	strict := start(t, parse(t, free+"upstream: "+s.url+"\ndefault: deny\nrules: [{name: open, match: {path: /area/open/**}, key: global, limit: {algorithm: token_bucket, rate: 1000/s}}]"), nil)
	for target, want := range map[string]int{
		"/area//open": 429, "/area%2f%2fopen": 429, "/area%2f/open/x": 429, "/area/%252fopen": 429, "/area%5c/open": 429, "/area//open/": 429, "//area//open": 429, "/area///open/x": 429,
		"/area/open": 200, "/area/open/": 200, "/area/open//": 200, "/area/open//x": 200, "//area/open/x": 200,
	} {
		if status, head := r.one(s, "GET "+target+" HTTP/1.1", "Host: a.example"); status != want || (head != "") != (want == 200) {
			t.Errorf("%s answers %d, and the service got %q; want %d", target, status, head, want)
		}
		if status, head := strict.one(s, "GET "+target+" HTTP/1.1", "Host: a.example"); (status == 200) != (want == 200) || (head != "") != (want == 200) {
			t.Errorf("by default deny, %s answers %d, and the service got %q; want %d", target, status, head, want)
		}
	}
}
