package threats

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/checks/process"
	"github.com/sluicehq/sluice/checks/redistest"
)

// door is a listener for other protocols than HTTP/1.
type door struct {
	listener string
	calls    []string // that the door answers
	answer   string   // is in each of these answers
}

// doors are the listeners, with the bytes of a call at each.
func doors() []door {
	frame := func(kind byte, stream, number byte, payload string) string {
		head := append([]byte{kind, 0, 0, 0, 1, stream, number}, payload...)
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(head)))) + string(head)
	}
	text := func(s string) string { return string(rune(len(s))) + s }
	hello := frame(1, 0, 0, text("supported-versions")+"\x08"+text("2.0")+text("max-frame-size")+"\x03\xfc\xf0\x06"+text("capabilities")+"\x08"+text("pipelining"))
	headers := text("host") + text("www.example.com") + "\x00\x00"
	notify := frame(3, 1, 1, text("sluice")+"\x04"+text("method")+"\x08"+text("GET")+text("target")+"\x08"+text("/x")+text("src")+"\x06\xc0\x00\x02\x01"+text("headers")+"\x09"+text(headers))
	unary := func(path, message string) string {
		out := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		out = h2Frame(out, h2Settings, 0, 0, "")
		out = h2Frame(out, h2Headers, h2EndHeaders, 1, h2Block([][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "sluice"}, {"content-type", "application/grpc"}, {"te", "trailers"}}))
		return string(h2Frame(out, h2Data, h2EndStream, 1, "\x00\x00\x00\x00"+text(message)))
	}
	descriptor := "\x0a\x04edge\x12\x0d\x0a\x0b\x0a\x04user\x12\x03ann"
	return []door{
		{"grpc", []string{
			unary("/grpc.health.v1.Health/Check", ""),
			unary("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", descriptor),
			unary("/envoy.service.auth.v3.Authorization/Check", "\x0a\x02\x0a\x00"),
		}, "\x9a\xca\xc8\xb2\x12\x34\xda\x8f"}, // grpc-status
		{"resp", []string{"*1\r\n$4\r\nPING\r\n", "PING\r\n", "*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n9\r\n$2\r\n60\r\nPING\r\n", "MULTI\r\nPING\r\nEXEC\r\nPING\r\n"}, "PONG"},
		{"spoe", []string{hello, hello + notify}, "max-frame-size"},
	}
}

// TestBytesHurtNoDoor sends changed calls to the listeners for gRPC, Redis clients and HAProxy: bytes and lengths are
// replaced, parts are missing, repeated or exchanged. Some clients close their half of the connection, or read nothing.
// The server still answers calls at each door afterwards, and its memory is bounded.
func TestBytesHurtNoDoor(t *testing.T) {
	folder := t.TempDir()
	program, err := process.Build(folder)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(folder, "sluice.yaml")
	if err := os.WriteFile(config, []byte(`version: 1
listen: {proxy: off, api: off, admin: off, grpc: '127.0.0.1:0', resp: '127.0.0.1:0', spoe: '127.0.0.1:0'}
trusted_proxies: 127.0.0.1
store: {memory: {max_size: 16MiB}}
log: {level: error}
domains: [edge]
rules:
  - {name: all, key: client_ip, limit: {algorithm: token_bucket, rate: 1000000/s}}
  - {name: described, descriptor: {domain: edge, entries: [user]}, limit: {algorithm: token_bucket, rate: 1000000/s}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := process.StartSluice(t, exec.Command(program, "serve", config), 3)
	answers := func() {
		t.Helper()
		for _, d := range doors() {
			for i, call := range d.calls {
				if got, err := exchange(s.Address(d.listener), []byte(call)); err != nil || !strings.Contains(got, d.answer) {
					t.Errorf("call %d at %s is answered by %q, %v; want %q in it", i, d.listener, got, err, d.answer)
				}
			}
		}
	}
	answers()
	seed, total := seedOf(t), redistest.Times(t, 150)
	jobs := make(chan int, total)
	for number := range total {
		jobs <- number
	}
	close(jobs)
	var working sync.WaitGroup
	for range connections {
		working.Go(func() {
			for number := range jobs {
				g := newGen(seed, number)
				d := doors()[g.IntN(3)]
				g.spoilBytes(t.Context(), s.Address(d.listener), d.calls)
			}
		})
	}
	working.Wait()
	answers()
	select {
	case <-s.Ended():
		t.Fatalf("the server ended with %d:\n%s", s.ExitCode(), s.Log())
	default:
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID())); err == nil { // on Linux
		var most int
		_, rest, _ := strings.Cut(string(status), "VmHWM:")
		if _, err := fmt.Sscan(rest, &most); err != nil || most > 256<<10 {
			t.Errorf("the server has used %d KiB, %v", most, err)
		}
	}
}

// spoilBytes sends changed calls over one connection.
func (g gen) spoilBytes(ctx context.Context, address string, calls []string) {
	var text []byte
	for range g.some(4) {
		text = append(text, g.pick(calls...)...)
	}
	for range g.IntN(6) {
		at, size := g.IntN(len(text)), g.some(12)
		end := min(at+size, len(text))
		switch g.IntN(6) {
		case 0:
			text[at] = byte(g.IntN(256))
		case 1:
			text[at] = g.pick("\x00", "\xff", "\x7f", "\x80", "\r", "\n", "$", "*", "9", "\x01")[0]
		case 2:
			text = append(text[:at:at], text[end:]...)
		case 3:
			text = append(text[:end:end], text[at:]...)
		case 4:
			text = append(append(text[:at:at], strings.Repeat(g.pick("\x00", "\xff", "9", "*1\r\n", "\r\n"), g.some(3000))...), text[at:]...)
		case 5:
			text = text[:max(1, at)]
		}
		if len(text) == 0 {
			return
		}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return // the calls afterwards fail
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(idle)) // a connection that is gone fails below
	for len(text) > 0 {
		n := len(text)
		if g.chance(30) {
			n = g.some(n)
		}
		if _, err := c.Write(text[:n]); err != nil {
			return
		}
		text = text[n:]
	}
	if g.chance(50) {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	if g.chance(80) {
		_, _ = io.Copy(io.Discard, c) // until the server closes the connection, or says nothing
	}
}
