package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func newReader(p []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(p)) }

// FuzzPathsAgree answers with any bytes, on both paths, and compares what clients get. The service sends the bytes in two
// pieces, and closes the connection.
func FuzzPathsAgree(f *testing.F) {
	for i, c := range scripts {
		if len(c.answer) < 8<<10 {
			f.Add([]byte(c.answer), i*7, c.method == http.MethodHead)
		}
	}
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: X-Sum\r\nX-Sum: 1\r\nKeep-Alive: 1\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Content-Length\r\n\r\n0\r\nX-Sum: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n00\r\nContent-Length: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-Time\r\n\r\n0\r\nX-Sum: 1\r\n\r\n",
		"HTTP/1.1 200\r\nContent-Length:\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\nContent-Length: 0\r\n\r\n",
		"HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.10 200 OK\r\n\r\n", "HTTP/0.9 200 OK\r\n\r\nok",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nPRI",
		"HTTP/1.1 205 Reset Content\r\n\r\nok", "HTTP/1.1 416 Range\r\nContent-Range: bytes */2\r\n\r\n",
		"\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\rContent-Length: 1\r\r", "HTTP/1.1  200 OK\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\x00\r\n\r\na", "HTTP/1.1 200 OK\r\n: a\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
	} {
		f.Add([]byte(answer), 0, false)
		f.Add([]byte(answer), len(answer)/2, true)
	}
	for _, c := range []byte("\x00\x01\t\v\r\x1b !:\"\x7f\x80\xff") {
		for _, head := range []string{"X-A: a%b", "X-A:%", "X%A: a", "%X-A: a", "X-A%: a"} {
			answer := "HTTP/1.1 200 OK\r\n" + strings.Replace(head, "%", string([]byte{c}), 1) + "\r\nContent-Length: 2\r\n\r\nok"
			f.Add([]byte(answer), len(answer), false)
		}
	}
	answers := make(chan [2][]byte, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				for _, piece := range <-answers {
					_, _ = c.Write(piece)
				}
				_ = c.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, c)
			}
			c.Close()
		}
	}()
	f.Cleanup(func() {
		l.Close()
		<-done
	})
	target := &url.URL{Scheme: "http", Host: l.Addr().String()}
	var proxies [2]*Proxy
	for i := range proxies {
		tr := TransportOptions{}.transport(i == 0)
		f.Cleanup(tr.Close)
		if proxies[i], err = New(Options{Upstream: target, Transport: tr, Logger: discard()}); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, answer []byte, at int, head bool) {
		at = min(max(at, 0), len(answer))
		var got [2]string
		for i, p := range proxies {
			answers <- [2][]byte{answer[:at], answer[at:]}
			got[i] = describe(p, head)
			select {
			case <-answers:
				t.Fatal("the service got no request")
			default:
			}
			p.o.Transport.Close()
		}
		if got[0] != got[1] {
			t.Errorf("%q\ndirect:  %s\nhttp:    %s", answer, got[0], got[1])
		}
	})
}

// describe sends a request through a proxy, and describes what the client gets.
func describe(p *Proxy, head bool) (text string) {
	method := http.MethodGet
	if head {
		method = http.MethodHead
	}
	w := &interimRecorder{ResponseRecorder: httptest.NewRecorder()}
	defer func() {
		broken := recover()
		if broken != nil && broken != http.ErrAbortHandler { //nolint:errorlint // it is this value
			panic(broken)
		}
		w.Flush()
		res := w.Result()
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		text = fmt.Sprintf("%q %d %q %q trailer %q broken %t", w.interim, res.StatusCode, header(res.Header), body, header(res.Trailer), broken != nil)
	}()
	p.ServeHTTP(w, httptest.NewRequest(method, "http://example.com/", nil)) //nolint:noctx // there is no test yet
	return ""
}

// interimRecorder also records interim answers, which a ResponseRecorder takes for the final one.
type interimRecorder struct {
	*httptest.ResponseRecorder
	interim []string
}

func (w *interimRecorder) WriteHeader(status int) {
	if status >= 200 {
		w.ResponseRecorder.WriteHeader(status)
		return
	}
	w.interim = append(w.interim, fmt.Sprint(status, header(w.Header())))
}

// header lists a header in order.
func header(h http.Header) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		all = append(all, fmt.Sprintf("%s: %q", name, h[name]))
	}
	return all
}
