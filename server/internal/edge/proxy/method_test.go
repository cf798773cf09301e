package proxy

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRequestLinesHaveThreeParts sends methods and queries over HTTP/2 that would form other request lines in HTTP/1.1.
// They are refused, and the service gets nothing.
func TestRequestLinesHaveThreeParts(t *testing.T) {
	s := script(t, func(s *scripted, _ int64, c net.Conn, in *bufio.Reader) {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		t.Errorf("the service got %q", line)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})
	p := handler(t, s.url, TransportOptions{}, nil)
	f := httptest.NewUnstartedServer(Bounded(p, p.o.Stall))
	f.Config.Protocols = new(http.Protocols)
	f.Config.Protocols.SetHTTP1(true)
	f.Config.Protocols.SetUnencryptedHTTP2(true)
	f.Start()
	t.Cleanup(f.Close)
	for _, c := range []struct{ method, path string }{
		{"GET /admin HTTP/1.1", "/"},
		{"GET\t/admin", "/"},
		{"G(T", "/"},
		{"GET", "/a?b HTTP/1.1"},
		{"GET", "/a? /admin"},
	} {
		if got := status2(t, f.URL, c.method, c.path); got != http.StatusBadRequest {
			t.Errorf("%q %q: status %d", c.method, c.path, got)
		}
	}
	w := dial(t, f.URL)
	w.send("GET x:admin HTTP/1.1", "Host: example.com", "")
	if h := w.header(); !strings.HasPrefix(h, "HTTP/1.1 400 ") {
		t.Errorf("a target without a path: %q", h)
	}
}

// status2 sends a request over HTTP/2 as it is, and returns the status of the answer; zero if it is not 200 or 400.
func status2(t *testing.T, target, method, path string) int {
	t.Helper()
	frame := func(kind, flags byte, stream uint32, payload []byte) []byte {
		b := []byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags}
		return append(binary.BigEndian.AppendUint32(b, stream), payload...)
	}
	var block []byte
	for _, h := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", "example.com"}, {":path", path}} {
		block = append(append(append(block, 0, byte(len(h[0]))), h[0]...), byte(len(h[1])))
		block = append(block, h[1]...)
	}
	c := dial(t, target)
	const ends, settings, headers = 0x5, 4, 1 // ends: of the stream and of the header
	out := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(settings, 0, 0, nil)...)
	if _, err := c.Write(append(out, frame(headers, ends, 1, block)...)); err != nil {
		t.Fatal(err)
	}
	for {
		var head [9]byte
		if _, err := io.ReadFull(c.in, head[:]); err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c.in, payload); err != nil {
			t.Fatal(err)
		}
		if head[3] == headers && len(payload) > 0 {
			c.Close()
			return map[byte]int{0x88: http.StatusOK, 0x8c: http.StatusBadRequest}[payload[0]] // of the static table
		}
	}
}
