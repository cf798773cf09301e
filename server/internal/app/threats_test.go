package app

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// frame is one frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) []byte {
	f := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(f, stream), payload...)
}

// resetRapidly opens up to 5,000 streams of HTTP/2 with these headers, takes each back at once, and closes the
// connection. It returns how many streams were opened.
func resetRapidly(t *testing.T, c net.Conn, flags byte, header string) (opened int) {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, c)
	}()
	out := bufio.NewWriter(c)
	_, _ = out.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	_, _ = out.Write(frame(4, 0, 0, ""))
	for opened < 5000 {
		stream := uint32(2*opened + 1)
		_, _ = out.Write(frame(1, flags, stream, header))
		if _, err := out.Write(frame(3, 0, stream, "\x00\x00\x00\x08")); err != nil {
			break // the server has had enough
		}
		opened++
	}
	_ = out.Flush()
	c.Close()
	<-read
	return opened
}

// TestRapidReset opens ten thousand streams and takes each back at once: what is under way at the service stays
// bounded, and so do memory and the time that others wait.
func TestRapidReset(t *testing.T) {
	var underWay, most atomic.Int64
	service := behind(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			hello(w, r)
			return
		}
		n := underWay.Add(1)
		defer underWay.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-r.Context().Done()
	})
	a := newAuthority(t)
	cert, key := a.pair("front")
	r := start(t, parse(t, fmt.Sprintf(`
version: 1
listen: {proxy: {address: '127.0.0.1:0', tls: {cert: %q, key: %q}}, api: '127.0.0.1:0', admin: '127.0.0.1:0'}
upstream: %s`, cert, key, service)+roomy), nil)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool()}}
	defer tr.CloseIdleConnections()
	r.client = &http.Client{Transport: tr, Timeout: patience}
	if got := r.status(Proxy, "/"); got != http.StatusOK {
		t.Fatalf("answers %d", got)
	}
	before, goroutines := heap(), runtime.NumGoroutine()

	authority := strings.TrimPrefix(r.URL(Proxy), "https://")
	// GET https, the authority and the path as literals under the names that HPACK numbers 1 and 4.
	header := "\x82\x87\x01" + string(rune(len(authority))) + authority + "\x04\x05/slow"
	attack := func() (opened int) {
		d := tls.Dialer{Config: &tls.Config{RootCAs: a.pool(), NextProtos: []string{"h2"}}}
		c, err := d.DialContext(t.Context(), "tcp", authority)
		if err != nil {
			t.Fatal(err)
		}
		return resetRapidly(t, c, 5, header)
	}
	ended := make(chan int)
	for range 2 {
		go func() { ended <- attack() }()
	}
	var took []time.Duration
	for range 100 {
		at := time.Now()
		if got := r.status(Proxy, "/"); got != http.StatusOK {
			t.Errorf("others get %d", got)
		}
		took = append(took, time.Since(at))
	}
	opened := <-ended + <-ended
	if opened < 500 {
		t.Errorf("only %d streams were opened: this tests nothing", opened)
	}
	slices.Sort(took)
	if p99 := took[98]; p99 > time.Second {
		t.Errorf("others wait %v", p99)
	}
	if got := most.Load(); got > 2*250 {
		t.Errorf("%d requests were under way at once", got)
	}
	eventually(t, "the end of all that was taken back", func() bool { return underWay.Load() == 0 && runtime.NumGoroutine() < goroutines+50 })
	if grown := int64(heap()) - int64(before); grown > 32<<20 {
		t.Errorf("%d streams that were taken back leave %d KiB", opened, grown>>10)
	}
}

// TestSpoofedMarks speaks to the server on the wire: whatever a client writes, before the body or
// after it, in whatever spelling, and whatever it names in Connection, services see of marks, degradations and
// addresses only the values of the server.
func TestSpoofedMarks(t *testing.T) {
	t.Parallel()
	seen := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var lines []string
			_, _ = io.Copy(io.Discard, r.Body)
			// A service may make headers of trailers.
			for field, values := range r.Trailer {
				r.Header[field] = append(r.Header[field], values...)
			}
			for field, values := range r.Header {
				if plain := strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(field)); strings.HasPrefix(plain, "sluice") ||
					strings.HasPrefix(plain, "x-less") || strings.Contains(plain, "real") || strings.Contains(plain, "forwarded-for") {
					lines = append(lines, fmt.Sprint(field, "=", strings.Join(values, ",")))
				}
			}
			slices.Sort(lines)
			fmt.Fprint(w, name, " ", strings.Join(lines, " "))
		}
	}
	r := start(t, parse(t, free+"upstream: "+behind(t, seen("full"))+`
rules:
  - {name: marking, key: [global], limit: {algorithm: fixed_window, rate: 1/d}, when_limited: {action: mark}}
  - {name: lesser, match: {path: /less}, key: [global], limit: {algorithm: fixed_window, rate: 1/d}, when_limited: {action: degrade, upstream: '`+behind(t, seen("less"))+`'}}
  - {name: hinting, key: [global], limit: {algorithm: fixed_window, rate: 2/d}, when_limited: {action: degrade, request_header: {X-Less: "yes"}}}
`), nil)
	c, in := r.connect(Proxy)
	const own = "X-Forwarded-For=127.0.0.1 X-Real-Ip=127.0.0.1"
	for i, x := range []struct{ path, want string }{
		{"/less", "full " + own},
		{"/", "full Sluice-Marked=marking " + own},
		{"/", "full Sluice-Marked=marking X-Forwarded-For=127.0.0.1 X-Less=yes X-Real-Ip=127.0.0.1"},
		{"/less", "less Sluice-Marked=marking " + own},
	} {
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: shop.example\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-Less, sluice.marked, X-Real-IP\r\n", x.path)
		var forged string
		for _, name := range []string{
			"Sluice-Marked", "sluice_marked", "SLUICE.MARKED", "sluice!marked", "Sluice-Degraded", "sLUICE_Degraded", "X-Less", "x_less", "X.Less", "X-Real-IP", "x_real_ip", "X-Forwarded-For", "x_forwarded_for", "X.Forwarded.For", "X*Forwarded*For", "x~real~ip",
		} {
			forged += name + ": forged\r\n"
		}
		fmt.Fprintf(c, "%sConnection: sluice-marked, X-Less\r\nConnection: x-real-ip, X-FORWARDED-FOR\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 1\r\n%s\r\n", forged, forged)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(body) != x.want {
			t.Errorf("request %d: %d %q, %v; want %q", i, res.StatusCode, body, err, x.want)
		}
	}
}
