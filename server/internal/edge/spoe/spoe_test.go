package spoe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
)

// A greeting is answered if both sides can talk, and otherwise refused with the reason.
func TestGreetingsAreAnsweredOrRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, oneRule, nil)
	text := func(name, v string) []byte { return appendStringValue(appendText(nil, name), v) }
	size := appendUint32Value(appendText(nil, "max-frame-size"), 1000)
	join := func(parts ...[]byte) []byte { return raw(frameHaproxyHello, flagFin, 0, 0, bytes.Join(parts, nil)) }
	for _, c := range []struct {
		name string
		give []byte
		want string
	}{
		{"of HAProxy 2.6", helloFrame("2.0", 16380, "pipelining,async"), "hello version=2.0 max-frame-size=16380 capabilities=pipelining,fragmentation"},
		{"without capabilities", helloFrame("1.0, 2.0", 256, ""), "hello version=2.0 max-frame-size=256 capabilities=fragmentation"},
		{"large frames", helloFrame("2.0", 1<<30, " pipelining "), "hello version=2.0 max-frame-size=65536 capabilities=pipelining,fragmentation"},
		{"small frames", helloFrame("2.0", 255, ""), "disconnect status-code=9 message=max-frame-size is less than 256"},
		{"another version", helloFrame("3.0,1.5", 16380, ""), "disconnect status-code=8 message=this agent speaks version 2.0"},
		{"no version", join(size, text("capabilities", "")), "disconnect status-code=5 message=supported-versions is missing"},
		{"no size", join(text("supported-versions", "2.0"), text("capabilities", "")), "disconnect status-code=6 message=max-frame-size is missing"},
		{"no capabilities", join(text("supported-versions", "2.0"), size), "disconnect status-code=7 message=capabilities is missing"},
		{"a wrong type", join(text("supported-versions", "2.0"), text("max-frame-size", "1000"), text("capabilities", "")), "disconnect status-code=6 message=max-frame-size is missing"},
		{"a version of a wrong type", join(appendUint32Value(appendText(nil, "supported-versions"), 2), size, text("capabilities", "")), "disconnect status-code=5 message=supported-versions is missing"},
		{"capabilities of a wrong type", join(text("supported-versions", "2.0"), size, appendUint32Value(appendText(nil, "capabilities"), 1)), "disconnect status-code=7 message=capabilities is missing"},
		{"nonsense", join([]byte{200}), "disconnect status-code=4 message=the hello cannot be read"},
		{"a fragment", raw(frameHaproxyHello, 0, 0, 0, nil), "disconnect status-code=4 message=the hello is fragmented"},
		{"a message first", raw(frameNotify, flagFin, 1, 1, message("GET", "/", "192.0.2.1", "host", "a.example")), "disconnect status-code=4 message=the first frame is not a hello"},
		{"a disconnection", raw(frameHaproxyDisconnect, flagFin, 0, 0, nil), "disconnect status-code=0 message=normal"},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), "disconnect status-code=3 message=a frame has 1195725856 bytes, more than 65536"},
		{"no frame", []byte{0, 0, 0, 0}, "disconnect status-code=4 message=a frame ends before its payload"},
		{"half a frame", []byte{0, 0, 0, 3, 1, 0, 0}, "disconnect status-code=4 message=a frame ends before its payload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := s.dial()
			p.send(c.give)
			if got := p.receive(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if strings.HasPrefix(c.want, "disconnect") {
				if got := p.receive(); got != "closed" {
					t.Errorf("after the disconnection: %s", got)
				}
			}
		})
	}
}

// A health check gets the hello, and the connection ends.
func TestHealthCheck(t *testing.T) {
	t.Parallel()
	p := serve(t, oneRule, nil).dial()
	b := helloFrame("2.0", 16380, "")
	payload := append(bytes.Clone(b[4+1+4+2:]), appendBoolValue(appendText(nil, "healthcheck"), true)...)
	p.send(raw(frameHaproxyHello, flagFin, 0, 0, payload))
	if got := p.receive(); !strings.HasPrefix(got, "hello version=2.0") {
		t.Errorf("a health check got %s, want the hello", got)
	}
	if got := p.receive(); got != "closed" {
		t.Errorf("after a health check, the connection should end: %s", got)
	}
}

// HAProxy gets the last answer, and then the end of the connection, whatever it is still sending.
func TestLastAnswersArrive(t *testing.T) {
	t.Parallel()
	s := serve(t, oneRule, nil)
	check := helloFrame("2.0", 16380, "")
	check = raw(frameHaproxyHello, flagFin, 0, 0, append(bytes.Clone(check[11:]), appendBoolValue(appendText(nil, "healthcheck"), true)...))
	for want, last := range map[string][]byte{
		"hello version=2.0":          check,
		"disconnect status-code=0":   raw(frameHaproxyDisconnect, flagFin, 0, 0, nil),
		"disconnect status-code=4 m": raw(77, flagFin, 1, 1, nil),
	} {
		p := s.dial()
		p.send(append(bytes.Clone(last), make([]byte, 100_000)...))
		if got := p.receive(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if _, err := p.frame(); !errors.Is(err, io.EOF) {
			t.Errorf("after %q, the connection does not end but breaks: %v", want, err)
		}
	}
}

// Requests are decided by the rules, with the defenses of reported requests, and answers have what HAProxy needs.
func TestAnswersHaveWhatHAProxyNeeds(t *testing.T) {
	t.Parallel()
	const host = "a.example"
	s := serve(t, oneRule, nil)
	p := s.greeted("")
	fine := "action=allow allowed=true header.ratelimit=\"one\";r=%d;t=%d header.ratelimit_policy=\"one\";q=2;w=3600 rule=one"
	for i, c := range []struct {
		payload []byte
		want    string
	}{
		{message("GET", "/api/x", "192.0.2.1", "host", host), fmt.Sprintf(fine, 1, 1800)},
		{message("GET", "/other", "192.0.2.1", "host", host), "action=allow allowed=true reason=no-rule"},
		// The client's own X-Forwarded-For does not count, and a trusted proxy's does.
		{message("GET", "/api/x", "192.0.2.1", "host", host, "x-forwarded-for", "198.51.100.1"), "action=allow allowed=true header.ratelimit=\"one\";r=0"},
		{message("GET", "/api/%78", "10.0.0.1", "host", host, "x-forwarded-for", "198.51.100.1, 192.0.2.1"), "action=deny allowed=false body={\"type\":"},
		{message("get", "/api/x", "192.0.2.9", "host", host), "action=deny allowed=false body="},
		{message("GET", "/api/x#f", "192.0.2.9", "host", host), "action=deny allowed=false body="},
		{message("GET", "/api/x", "192.0.2.9", "host", host, "host", "b.example"), "action=deny allowed=false body="},
		{message("GET", "/api/x", "192.0.2.9"), "action=deny allowed=false body="},
		{message("GET", "https://a.example/api/x", "2001:db8::1", "host", host), fmt.Sprintf(fine, 1, 1800)},
		{message("GET", "https://b.example/api/x", "192.0.2.9", "host", host), "action=deny allowed=false body="},
		{message("GET", "/api/x", "192.0.2.9", "host", host, "x-http-method-override", "DELETE"), "action=deny allowed=false body="},
		{message("GET", "/api/x", "192.0.2.9", "host", host, "bad header", "x"), "action=deny allowed=false body="},
	} {
		if got := p.notify(c.payload); !strings.HasPrefix(got, c.want) {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
	got := p.notify(message("GET", "/api/x", "192.0.2.1", "host", host))
	for _, want := range []string{
		" header.cache_control=no-store ", " headers=Cache-Control: no-store\nContent-Type: application/problem+json\n", " header.content_type=application/problem+json ", " header.retry_after=1800 ", " reason=limited ", " retry_after=1800 ",
		" rule=one ", " status=429", `"violated-policies":["one"]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("a denial has no %q: %s", want, got)
		}
	}
	if s.complaints() != "" {
		t.Errorf("the server complains: %s", s.complaints())
	}
}

// If a fallback has decided, HAProxy gets a mark, and no numbers that are not known.
func TestFallbacksGiveHAProxyAMark(t *testing.T) {
	t.Parallel()
	d := options(t, oneRule, gateway.Options{}).Decider
	l := sluice.MustLimit("one", sluice.FixedWindow{Rate: sluice.PerHour(2)})
	r := httptest.NewRequest(http.MethodGet, "/api/x", http.NoBody)
	for _, c := range []struct {
		d            sluice.Decision
		want, hidden []string
	}{
		{sluice.Decision{Allowed: true, Limit: 2, Remaining: 1}, []string{`"one";r=1`}, []string{"degraded"}},
		{sluice.Decision{Allowed: true, Degraded: true, Limit: 2, Remaining: 1}, []string{"degraded", `"one";q=2`}, []string{";r="}},
		{
			sluice.Decision{Degraded: true, Reason: sluice.ReasonStoreError, Limit: 2, RetryAfter: time.Second},
			[]string{"degraded", "retry_after", `"one";q=2`},
			[]string{";r="},
		},
	} {
		v := &policy.Verdict{Tightest: c.d, TightestLimit: l, Reason: c.d.Reason, Results: []policy.LimitResult{{Request: sluice.Request{Limit: l, Cost: 1}, Decision: c.d}}}
		if !c.d.Allowed {
			v.Action = policy.Deny
		}
		a := newAnswer(nil, 1, 1, 16380)
		a.verdict(d, r, v, !c.d.Allowed)
		got := string(a.end())
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%+v: no %q in %q", c.d, want, got)
			}
		}
		for _, hidden := range c.hidden {
			if strings.Contains(got, hidden) {
				t.Errorf("%+v: %q in %q", c.d, hidden, got)
			}
		}
	}
}

// Headers may come as text, too.
func TestHeadersAsText(t *testing.T) {
	t.Parallel()
	p := serve(t, "rules: [{name: user, key: \"header:X-User\", limit: {algorithm: token_bucket, rate: 2/h}}]\n", nil).greeted("")
	build := func(headers string) []byte {
		b := append(appendText(nil, "any-name"), 5)
		for name, text := range map[string]string{"method": "GET", "target": "/", "host": "a.example", "headers": headers} {
			b = appendStringValue(appendText(b, name), text)
		}
		return append(appendText(b, "src"), kindNull)
	}
	for i, want := range []string{"r=1;", "r=0;", "action=deny"} {
		if got := p.notify(build("host: a.example\r\nx-user: me\r\n\r\n")); !strings.Contains(got, want) {
			t.Errorf("answer %d is %s, want %s", i, got, want)
		}
	}
	for _, bad := range []string{"host", "host: a.example", "host: a.example\r\n\r\nx: y\r\n\r\n", "x-user\r\n\r\n"} {
		if got := p.notify(build(bad)); got != "problem="+badHeaders {
			t.Errorf("headers %q should be refused: %s", bad, got)
		}
	}
}

// A message that describes no request gets no decision, and the reason is reported.
func TestUnusableMessages(t *testing.T) {
	t.Parallel()
	s := serve(t, oneRule, nil)
	p := s.greeted("pipelining")
	whole := message("GET", "/", "192.0.2.1", "host", "a.example")
	begin := func(n byte) []byte { return append(appendText(nil, "m"), n) }
	method := appendStringValue(appendText(nil, "method"), "GET")
	target := appendStringValue(appendText(nil, "target"), "/")
	src := append(appendText(nil, "src"), appendAddr(nil, netip.MustParseAddr("192.0.2.1"))...)
	headers := func(list string) []byte {
		return append(append(appendText(nil, "headers"), kindBinary), appendText(nil, list)...)
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for _, c := range []struct {
		payload []byte
		want    string
	}{
		{nil, noMessage},
		{join(whole, whole), twoMessages},
		{whole[:len(whole)-1], unreadable},
		{[]byte{250}, unreadable},
		{begin(1), unreadable},
		{begin(0), noMethod},
		{join(begin(1), method), noTarget},
		{join(begin(2), method, target), noHeaders},
		{join(begin(3), method, target, headers("\x00\x00")), noSource},
		{join(begin(4), method, target, headers("\x00\x00\x00"), src), badHeaders},
		{join(begin(4), method, target, headers("\x04host"), src), badHeaders},
		{join(begin(4), method, target, append(appendText(nil, "headers"), kindNull), src), noHeaders},
		{join(begin(2), method, method), repeated},
		{join(begin(1), appendStringValue(appendText(nil, "path"), "/")), unknownName},
		{join(begin(1), appendInt32Value(appendText(nil, "src"), 1)), badSource},
		{join(begin(1), appendStringValue(appendText(nil, "src"), "a.example")), badSource},
		{join(begin(1), appendStringValue(appendText(nil, "src"), "@")), badSource},
		{join(begin(1), appendStringValue(appendText(nil, "src"), "")), badSource},
	} {
		if got := p.notify(c.payload); got != "problem="+c.want {
			t.Errorf("%q: %s, want %s", c.payload, got, c.want)
		}
	}
	if n := strings.Count(s.complaints(), ";"); n < 14 {
		t.Errorf("complaints: %s", s.complaints())
	}
	if s.verdicts > 0 {
		t.Errorf("%d verdicts", s.verdicts)
	}
}

// Messages that are too large for a frame come in parts.
func TestLargeMessagesComeInParts(t *testing.T) {
	t.Parallel()
	s := serve(t, oneRule, nil)
	payload := message("GET", "/api/x", "192.0.2.1", "host", "a.example", "cookie", strings.Repeat("x", 20_000))
	p := s.greeted("pipelining")
	const size = 7000
	p.send(raw(frameNotify, 0, 300, 4000, payload[:size]))
	p.send(raw(frameRest, 0, 300, 4000, payload[size:2*size]))
	p.send(raw(frameRest, flagFin, 300, 4000, payload[2*size:]))
	if got := p.receive(); !strings.HasPrefix(got, "ack 300/4000 action=allow allowed=true") {
		t.Errorf("a message in three parts got %s", got)
	}
	// A message that HAProxy gives up gets no answer, and leaves nothing behind.
	p.send(raw(frameNotify, 0, 301, 1, payload[:size]))
	p.send(raw(frameRest, flagFin|flagAbort, 301, 1, nil))
	if got := p.notify(message("GET", "/api/x", "192.0.2.1", "host", "a.example")); !strings.Contains(got, "r=0;") {
		t.Errorf("the message that was given up took a unit or left something behind: %s", got)
	}
	if got := s.complaints(); got != "" {
		t.Errorf("a valid message is complained about: %s", got)
	}
	for _, c := range []struct {
		name   string
		frames [][]byte
		want   string
	}{
		{"no beginning", [][]byte{raw(frameRest, flagFin, 1, 1, nil)}, "status-code=12 message=a part belongs to no message"},
		{"another message", [][]byte{raw(frameNotify, 0, 1, 1, nil), raw(frameRest, flagFin, 1, 2, nil)}, "status-code=11 message=a part belongs to another message"},
		{"interlaced", [][]byte{raw(frameNotify, 0, 1, 1, nil), raw(frameNotify, flagFin, 2, 1, payload[:10])}, "status-code=11 message=a message begins within another"},
		{"a second hello", [][]byte{helloFrame("2.0", 16380, "")}, "status-code=4 message=a frame of type 1 is not expected"},
		{"an unknown type", [][]byte{raw(77, flagFin, 1, 1, nil)}, "status-code=4 message=a frame of type 77 is not expected"},
		{"an agent's frame", [][]byte{raw(frameAck, flagFin, 1, 1, nil)}, "status-code=4 message=a frame of type 103 is not expected"},
		{"a large frame", [][]byte{raw(frameNotify, flagFin, 1, 1, make([]byte, 16380))}, "status-code=3 message=a frame has 16387 bytes, more than 16380"},
		{"no end", func() (all [][]byte) {
			all = append(all, raw(frameNotify, 0, 1, 1, make([]byte, 16000)))
			for range 10 {
				all = append(all, raw(frameRest, 0, 1, 1, make([]byte, 16000)))
			}
			return all
		}(), "status-code=3 message=a message has more than 131072 bytes"},
	} {
		p := s.greeted("pipelining")
		for _, b := range c.frames {
			if _, err := p.Write(b); err != nil {
				break // the server has ended the connection
			}
		}
		if got := p.receive(); got != "disconnect "+c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		_, message, _ := strings.Cut(c.want, "message=")
		if got := s.complaints(); !strings.Contains(got, "HAProxy sent what is not SPOP: "+message) {
			t.Errorf("%s is not complained about: %s", c.name, got)
		}
	}
	ended := s.greeted("pipelining")
	ended.send(raw(frameHaproxyDisconnect, flagFin, 0, 0, nil))
	if got := ended.receive(); got != "disconnect status-code=0 message=normal" || strings.Contains(s.complaints(), "normal") {
		t.Errorf("the end of a connection is answered with %s; complaints: %s", got, s.complaints())
	}
}

// Only trusted proxies get answers.
func TestOnlyTrustedProxiesGetAnswers(t *testing.T) {
	t.Parallel()
	s := serve(t, oneRule, func(o *Options) { o.Trusts = func(netip.Addr) bool { return false } })
	p := s.dial()
	_, _ = p.Write(helloFrame("2.0", 16380, ""))
	if got := p.receive(); got != "closed" {
		t.Errorf("a peer that is not trusted got %s", got)
	}
	if !strings.Contains(s.complaints(), "not in trusted_proxies") {
		t.Errorf("complaints: %s", s.complaints())
	}
}

const slowRule = "rules: [{name: slow, match: {path: /slow}, key: client_ip, limit: {algorithm: leaky_bucket, rate: 20/s, queue: 50}}]\n"

// A request that waits does not hold up others on its connection, if HAProxy takes answers in any order.
func TestWaitingRequestsHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	s := serve(t, slowRule, nil)
	p := s.greeted("pipelining,async")
	const n = 10
	for i := range n {
		p.send(raw(frameNotify, flagFin, uint64(i), 1, message("GET", "/slow", "192.0.2.1", "host", "a.example")))
	}
	p.send(raw(frameNotify, flagFin, 1000, 1, message("GET", "/quick", "192.0.2.1", "host", "a.example")))
	seen, quickAt := map[string]bool{}, 0
	for i := range n + 1 {
		got := p.receive()
		if !strings.Contains(got, "allowed=true") {
			t.Errorf("a request should be allowed: %s", got)
		}
		id, _, _ := strings.Cut(got, " action")
		seen[id] = true
		if id == "ack 1000/1" {
			quickAt = i
		}
	}
	if len(seen) != n+1 || quickAt == n {
		t.Errorf("%d answers; the quick one is number %d", len(seen), quickAt)
	}
}

// A request is decided even if others are being decided.
func TestRequestsAreDecidedBesideOthers(t *testing.T) {
	t.Parallel()
	s := serve(t, slowRule, func(o *Options) { o.MaxDeciding = 1 })
	if n := cap(s.server.deciding); n != 1 {
		t.Errorf("%d are decided at once", n)
	}
	p := s.greeted("pipelining")
	const n = 500
	go func() {
		for i := range n {
			_, _ = p.Write(raw(frameNotify, flagFin, uint64(i), 1, message("GET", "/quick", "192.0.2.1", "host", "a.example")))
		}
	}()
	for range n {
		if got := p.receive(); !strings.Contains(got, "allowed=true") {
			t.Fatalf("a request among many got %s", got)
		}
	}
}

// Frames up to the agreed size fit, also behind others.
func TestLargeFrames(t *testing.T) {
	t.Parallel()
	p := serve(t, oneRule, nil).dial()
	p.send(helloFrame("2.0", mostFrame, ""))
	p.receive()
	for i := range 3 {
		if got := p.notify(message("GET", "/api/x", "192.0.2.1", "host", "a.example", "cookie", strings.Repeat("x", 20_000*(i+1)))); (i < 2) != strings.HasPrefix(got, "action=allow") {
			t.Errorf("frame %d got %s", i, got)
		}
	}
}

// A proxy that never reads is cut off, and the server holds a bounded amount for it.
func TestProxyNeverReads(t *testing.T) {
	t.Parallel()
	s := serve(t, slowRule, func(o *Options) { o.Write = 100 * time.Millisecond })
	p := s.greeted("pipelining")
	b := raw(frameNotify, flagFin, 1, 1, message("GET", "/quick", "192.0.2.1", "host", "a.example"))
	sent := 0
	for sent < 1<<30 {
		n, err := p.Write(bytes.Repeat(b, 100))
		sent += n
		if err != nil {
			break
		}
	}
	if sent >= 1<<30 {
		t.Errorf("the server read %d bytes of a proxy that reads nothing", sent)
	}
}

// A server that ends answers what has arrived, and then says that it ends.
func TestFramesThatArrivedAreAnsweredAtTheEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, slowRule, nil)
	p, idle := s.greeted("pipelining"), s.greeted("")
	for i := range 3 {
		p.send(raw(frameNotify, flagFin, uint64(i), 1, message("GET", "/slow", "192.0.2.1", "host", "a.example")))
	}
	if got := p.receive(); !strings.HasPrefix(got, "ack ") {
		t.Errorf("the first frame got %s, want an acknowledgement", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), edgetest.Patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.server.Shutdown(ctx) }()
	for range 2 {
		if got := p.receive(); !strings.HasPrefix(got, "ack ") {
			t.Errorf("a frame that had arrived got %s, want an acknowledgement", got)
		}
	}
	for _, p := range []*proxy{p, idle} {
		if got := p.receive(); got != "disconnect status-code=0 message=normal" {
			t.Errorf("at the end, the connection got %s", got)
		}
		_ = p.Close()
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A frame, a hello and a fragmented message must arrive in time; nothing waits for the rest for ever.
func TestFramesMustArriveInTime(t *testing.T) {
	t.Parallel()
	const soon = 200 * time.Millisecond
	slow := func(o *Options) { o.Read, o.Idle = soon, time.Hour }
	drip := func(first ...byte) func(p *proxy) { // without an end, as long as the connection lasts
		return func(p *proxy) {
			for b := first; ; b = []byte{0} {
				if _, err := p.Write(b); err != nil {
					return
				}
				<-time.After(soon / 4)
			}
		}
	}
	for name, c := range map[string]struct {
		greeted bool
		change  func(*Options)
		send    func(p *proxy)
	}{
		"no hello":        {false, slow, func(*proxy) {}},
		"half a hello":    {false, slow, drip(0, 0, 1, 0)},
		"half a frame":    {true, slow, drip(0, 0, 1, 0)},
		"half a length":   {true, slow, func(p *proxy) { p.send([]byte{0, 0}) }},
		"half a message":  {true, slow, func(p *proxy) { p.send(raw(frameNotify, 0, 1, 1, nil)) }},
		"between answers": {true, func(o *Options) { o.Read, o.Idle = time.Hour, soon }, func(p *proxy) { p.send(raw(frameNotify, flagFin, 7, 9, message("GET", "/", "192.0.2.1"))) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, oneRule, c.change)
			p := s.dial()
			if c.greeted {
				p = s.greeted("")
			}
			began := time.Now()
			go c.send(p)
			_, _ = io.Copy(io.Discard, p.In) // until the server closes, with or without a reset
			if took := time.Since(began); took > edgetest.Patience/2 {
				t.Errorf("the connection ends after %v", took)
			}
		})
	}
}

// A header without a value does not end the list of headers. Only an empty name with an empty value does.
func TestHeadersWithoutValues(t *testing.T) {
	for _, c := range []struct {
		list string // the texts of the list, each with its length
		want string // Host and X-Empty
	}{
		{"\x07x-empty\x00\x04host\x01a\x00\x00", "[a] []"},
		{"\x04host\x01a\x07x-empty\x00\x00\x00", "[a] []"},
		{"\x00\x00\x04host\x01a\x00\x00", "refused"}, // something comes after the end
		{"\x04host\x01a", "refused"},                 // no end
	} {
		b := append(appendText(nil, "sluice"), 4)
		b = appendStringValue(appendText(b, "method"), "GET")
		b = appendStringValue(appendText(b, "target"), "/")
		b = append(appendText(b, "src"), appendAddr(nil, netip.MustParseAddr("192.0.2.1"))...)
		b = append(append(appendText(b, "headers"), kindBinary), appendText(nil, c.list)...)
		got := "refused"
		if q, problem := readMessage(b); problem == "" {
			got = fmt.Sprint(q.Header["Host"], q.Header["X-Empty"])
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.list, got, c.want)
		}
	}
}

// FuzzFrames: whatever frames arrive, reading them neither panics nor reads outside of the frame.
func FuzzFrames(f *testing.F) {
	f.Add(helloFrame("2.0", 16380, "pipelining")[4:])
	f.Add(raw(frameNotify, flagFin, 300, 70_000, message("GET", "/", "192.0.2.1", "host", "a.example"))[4:])
	f.Add(raw(frameNotify, flagFin, 1, 1, []byte{1, 'm', 1, 7, 'h', 'e', 'a', 'd', 'e', 'r', 's', 8, 9, 'a', ':', 'b', '\r', '\n', '\r', '\n'})[4:])
	f.Add([]byte{3, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255})
	o := options(f, oneRule, gateway.Options{})
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := readFrame(b)
		if err != nil {
			return
		}
		if h, err := readHello(frame.payload); err == nil && (h.size < leastFrame || h.size > mostFrame) {
			t.Errorf("a hello with frames of %d bytes", h.size)
		}
		q, problem := readMessage(frame.payload)
		if problem != "" {
			return
		}
		r, v := o.Decider.DecideReport(t.Context(), &q)
		s := &Server{o: o}
		s.o.complete()
		a := newAnswer(nil, 1, 1, 1000)
		a.headers("header.", r.Header)
		a.unusable(v.String())
		if n := len(a.end()); n > 1004 {
			t.Errorf("an answer of %d bytes", n)
		}
	})
}

// Numbers of any size are read as they were written.
func FuzzVarint(f *testing.F) {
	for _, n := range []uint64{0, 239, 240, 2287, 2288, 264431, 264432, 33818863, 33818864, 4328786159, 1<<63 - 1, 1<<64 - 1} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n uint64) {
		d := decoder{rest: appendVarint(nil, n)}
		if got := d.varint(); got != n || d.bad || len(d.rest) > 0 {
			t.Errorf("%d is read as %d", n, got)
		}
	})
}

// Variables have the names of headers in lower case, with underscores.
func TestVariablesHaveTheNamesOfHeaders(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{"Retry-After": "retry_after", "X-AZaz09": "x_azaz09", "A.Z": "a_z"} {
		if got := variable(header); got != want {
			t.Errorf("%s becomes %s, want %s", header, got, want)
		}
	}
}
