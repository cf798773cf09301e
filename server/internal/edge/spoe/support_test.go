package spoe

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicehq/sluice/policy"
	"github.com/sluicehq/sluice/server/internal/edge/edgetest"
	"github.com/sluicehq/sluice/server/internal/edge/gateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a server that listens.
type service struct {
	tb      testing.TB
	address string
	server  *Server

	mu       sync.Mutex
	unusable []string
	verdicts int
}

func (s *service) complaints() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.unusable, "; ")
}

const oneRule = "rules: [{name: one, match: {path: /api/**}, key: client_ip, limit: {algorithm: token_bucket, rate: 2/h}}]\n"

// options returns options over rules.
func options(tb testing.TB, rules string, o gateway.Options) Options {
	tb.Helper()
	decider, _ := edgetest.Gateway(tb, rules, o, "127.0.0.1/32", "10.0.0.0/8")
	return Options{Decider: decider, Trusts: func(a netip.Addr) bool { return a.IsLoopback() }}
}

// serve starts a server over rules; change may change its options.
func serve(tb testing.TB, rules string, change func(*Options)) *service {
	tb.Helper()
	s := &service{tb: tb}
	o := options(tb, rules, gateway.Options{
		Unusable: func(reason string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.unusable = append(s.unusable, reason)
		},
		OnVerdict: func(*policy.Verdict, time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.verdicts++
		},
	})
	if change != nil {
		change(&o)
	}
	var err error
	if s.server, err = New(o); err != nil {
		tb.Fatal(err)
	}
	s.address = edgetest.Serve(tb, s.server)
	return s
}

// proxy is a connection as HAProxy makes it.
type proxy struct {
	*edgetest.Conn
	tb testing.TB
}

func (s *service) dial() *proxy {
	s.tb.Helper()
	return &proxy{edgetest.Dial(s.tb, s.address), s.tb}
}

// greeted is dial with the hello of HAProxy.
func (s *service) greeted(capabilities string) *proxy {
	s.tb.Helper()
	p := s.dial()
	p.send(helloFrame("2.0", 16380, capabilities))
	if got := p.receive(); !strings.HasPrefix(got, "hello ") {
		s.tb.Fatalf("the hello is answered with %s", got)
	}
	return p
}

func (p *proxy) send(b []byte) {
	p.tb.Helper()
	if _, err := p.Write(b); err != nil {
		p.tb.Fatal(err)
	}
}

// raw makes a frame.
func raw(kind byte, flags uint32, stream, id uint64, payload []byte) []byte {
	b := beginFrame(nil, kind, stream, id)
	binary.BigEndian.PutUint32(b[5:], flags)
	b = append(b, payload...)
	putLength(b, 0)
	return b
}

func helloFrame(versions string, size uint32, capabilities string) []byte {
	b := appendStringValue(appendText(nil, "supported-versions"), versions)
	b = appendUint32Value(appendText(b, "max-frame-size"), size)
	b = appendStringValue(appendText(b, "capabilities"), capabilities)
	b = appendStringValue(appendText(b, "engine-id"), "an-engine")
	return raw(frameHaproxyHello, flagFin, 0, 0, b)
}

// message makes the payload of a message about a request. Each header is a name and a value.
func message(method, target, src string, headers ...string) []byte {
	var list []byte
	for _, h := range headers {
		list = appendText(list, h)
	}
	list = append(list, 0, 0)
	b := append(appendText(nil, "sluice"), 4)
	b = appendStringValue(appendText(b, "method"), method)
	b = appendStringValue(appendText(b, "target"), target)
	b = append(appendText(b, "src"), appendAddr(nil, netip.MustParseAddr(src))...)
	return append(append(appendText(b, "headers"), kindBinary), appendText(nil, string(list))...)
}

func appendAddr(b []byte, a netip.Addr) []byte {
	if a.Is4() {
		b = append(b, kindIPv4)
	} else {
		b = append(b, kindIPv6)
	}
	return append(b, a.AsSlice()...)
}

// notify sends a message and returns the answer.
func (p *proxy) notify(payload []byte) string {
	p.tb.Helper()
	p.send(raw(frameNotify, flagFin, 7, 9, payload))
	got := p.receive()
	text, ok := strings.CutPrefix(got, "ack 7/9 ")
	if !ok {
		p.tb.Fatalf("the message is answered with %s", got)
	}
	return text
}

// receive reads a frame as text: hello, disconnect with its status, or ack with its variables in the order of their names.
func (p *proxy) receive() string {
	p.tb.Helper()
	f, err := p.frame()
	if err != nil {
		return "closed"
	}
	if f.flags != flagFin {
		p.tb.Fatalf("a frame has the flags %b", f.flags)
	}
	d := decoder{rest: f.payload}
	var parts []string
	switch f.kind {
	case frameAck:
		for len(d.rest) > 0 {
			if action, n, scope := d.byte(), d.byte(), d.byte(); action != 1 || n != 3 || scope != 2 {
				p.tb.Fatalf("an action %d of %d arguments for scope %d", action, n, scope)
			}
			name := string(d.text())
			parts = append(parts, name+"="+show(d.value()))
		}
		sort.Strings(parts)
		parts = append([]string{fmt.Sprintf("ack %d/%d", f.stream, f.frame)}, parts...)
	case frameAgentHello, frameAgentDisconnect:
		if f.stream != 0 || f.frame != 0 {
			p.tb.Fatalf("a frame of type %d belongs to stream %d, frame %d", f.kind, f.stream, f.frame)
		}
		parts = []string{map[byte]string{frameAgentHello: "hello", frameAgentDisconnect: "disconnect"}[f.kind]}
		for len(d.rest) > 0 {
			name := string(d.text())
			parts = append(parts, name+"="+show(d.value()))
		}
	default:
		p.tb.Fatalf("a frame of type %d", f.kind)
	}
	if d.bad {
		p.tb.Fatalf("the payload %q cannot be read", f.payload)
	}
	return strings.Join(parts, " ")
}

func show(v value) string {
	switch v.kind {
	case kindBool:
		return fmt.Sprint(v.truth)
	case kindInt32, kindUint32:
		return fmt.Sprint(v.n)
	default:
		return string(v.text)
	}
}

func (p *proxy) frame() (f frame, err error) {
	var length [4]byte
	if _, err := io.ReadFull(p.In, length[:]); err != nil {
		return f, err
	}
	b := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(p.In, b); err != nil {
		return f, err
	}
	return readFrame(b)
}
