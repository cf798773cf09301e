package proxy

import (
	"bufio"
	"bytes"
	"net"
	"net/http/httptest"
	"net/url"
	"testing"
)

// BenchmarkGet passes a small GET on each path. Its figures include the client and the service, which do the least that
// is possible.
func BenchmarkGet(b *testing.B) {
	for name, direct := range map[string]bool{"direct": true, "transport": false} {
		b.Run(name, func(b *testing.B) { benchmarkGet(b, TransportOptions{}.transport(direct)) })
	}
}

func benchmarkGet(b *testing.B, tr *Transport) {
	b.Helper()
	defer tr.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Tue, 24 Nov 2026 13:15:08 GMT\r\n" +
		"Content-Length: 12\r\nX-Request-Id: 7f3a\r\nCache-Control: no-store\r\n\r\n{\"ok\": true}")
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go exchange(c, nil, answer, []byte("\r\n\r\n"), -1)
		}
	}()
	p, err := New(Options{Upstream: &url.URL{Scheme: "http", Host: l.Addr().String()}, Transport: tr, Logger: discard()})
	if err != nil {
		b.Fatal(err)
	}
	s := httptest.NewServer(Bounded(p, 0))
	defer s.Close()
	c, err := net.Dial("tcp", s.Listener.Addr().String()) //nolint:noctx // it is there
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	request := []byte("GET /a/b?c=d HTTP/1.1\r\nHost: example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n" +
		"Accept: */*\r\nAccept-Encoding: gzip, deflate\r\nAccept-Language: en\r\nCookie: a=b; c=d\r\n\r\n")
	b.ReportAllocs()
	b.ResetTimer()
	if n := exchange(c, request, request, []byte("true}"), b.N); n != b.N {
		b.Fatalf("%d answers of %d", n, b.N)
	}
}

// exchange writes begin, reads texts up to their ends, and writes a reply after each one. It returns after a number of
// texts, or at the end of the connection; a negative number has no end.
func exchange(c net.Conn, begin, reply, ends []byte, texts int) (n int) {
	defer c.Close()
	in := bufio.NewReader(c)
	_, err := c.Write(begin)
	for err == nil && n != texts {
		if _, err = in.Peek(in.Buffered() + 1); err != nil {
			break
		}
		if arrived, _ := in.Peek(in.Buffered()); bytes.HasSuffix(arrived, ends) {
			_, _ = in.Discard(len(arrived))
			if n++; n != texts {
				_, err = c.Write(reply)
			}
		}
	}
	return n
}
