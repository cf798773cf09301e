package app

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const roomy = "\nrules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 1000000/s}}]"

// heap returns the memory in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestSlowClientsHurtNobody opens a thousand connections that never finish their
// header, on the proxy and the API.
func TestSlowClientsHurtNobody(t *testing.T) {
	r := start(t, parse(t, free+"upstream: "+behind(t, hello)+"\nhttp: {header_timeout: 2s, read_timeout: 2s}"+roomy), nil)
	before := heap()
	began := time.Now()
	var slow []net.Conn
	for i := range 1000 {
		c, _ := r.connect([]string{Proxy, API}[i%2])
		if _, err := fmt.Fprintf(c, "POST /v1/check HTTP/1.1\r\nHost: example.com\r\nX-Slow-%d: ", i); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	var took []time.Duration
	for range 200 {
		at := time.Now()
		if got := r.status(Proxy, "/"); got != http.StatusOK {
			t.Errorf("answers %d", got)
		}
		took = append(took, time.Since(at))
	}
	if time.Since(began) < 2*time.Second {
		if grown := int64(heap()) - int64(before); grown > 64<<20 {
			t.Errorf("1,000 slow connections take %d KiB", grown>>10)
		}
	}
	slices.Sort(took)
	if p99 := took[len(took)*99/100]; p99 > 500*time.Millisecond {
		t.Errorf("beside slow clients the 99th percentile is %v", p99)
	}
	for _, c := range slow {
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		// The server closes them, some with an answer.
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Fatalf("a slow connection stays open: %v", err)
		}
	}
}

func TestSlowBodiesEnd(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"upstream: "+behind(t, func(_ http.ResponseWriter, q *http.Request) { _, _ = io.Copy(io.Discard, q.Body) })+
		"\nhttp: {header_timeout: 100ms, read_timeout: 100ms}"+roomy), func(o *Options) { o.Stall = 100 * time.Millisecond })
	for listener, want := range map[string]string{Proxy: " 408 ", API: " 400 ", Admin: " 400 "} {
		c, in := r.connect(listener)
		path := map[string]string{Proxy: "/", API: "/v1/check", Admin: "/v1/reset"}[listener]
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{", path)
		line, err := in.ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("%s: a body that never ends got %q, %v; want%s", listener, line, err, want)
		}
	}
}

// TestRefusalsDoNotWaitForTheBody denies requests whose bodies come, and one whose body
// never does.
func TestRefusalsDoNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"rules: [{name: one, key: [client_ip], limit: {algorithm: token_bucket, rate: 1/h}}]"), nil)
	r.status(Proxy, "/")
	c, in := r.connect(Proxy)
	for i, x := range []struct {
		rest  string
		close bool
	}{
		{"Content-Length: 4\r\n\r\nbody", false},
		{"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", false},
		{"Content-Length: 0\r\n\r\n", false},
		{"Content-Length: 4\r\n\r\nbo", true},
	} {
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"+x.rest)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusTooManyRequests || res.Close != x.close {
			t.Errorf("%d: answers %d, closes: %t, %v", i, res.StatusCode, res.Close, err)
		}
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Errorf("the connection stays open for the rest of a body: %v", err)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"http: {max_header_size: 8KiB}"+roomy), nil)
	for _, listener := range []string{Proxy, API, Admin} {
		if got := r.status(listener, "/", "X-Large", strings.Repeat("x", 32<<10)); got != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s answers %d", listener, got)
		}
	}
}

func TestBodiesOfTheAPIAreBounded(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"http: {max_body_size: 4KiB, max_proxy_body_size: 8KiB}"+roomy), nil)
	for listener, path := range map[string]string{API: "/v1/check", Admin: "/v1/reset", Proxy: "/"} {
		res, _ := r.send(listener, http.MethodPost, path, strings.Repeat(" ", 16<<10))
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s answers %d", listener, res.StatusCode)
		}
	}
}

// TestBombsPassAsTheyAre sends what a megabyte of zeros becomes a thousandth of; the proxy
// hands it on, and the API refuses it.
func TestBombsPassAsTheyAre(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 16 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r := start(t, parse(t, free+"upstream: "+behind(t, func(w http.ResponseWriter, q *http.Request) {
		n, _ := io.Copy(io.Discard, q.Body)
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("X-Received", fmt.Sprint(n))
		_, _ = w.Write(bomb.Bytes())
	})+roomy), nil)
	before := heap()
	res, text := r.send(Proxy, http.MethodPost, "/", bomb.String(), "Content-Encoding", "gzip")
	if res.Header.Get("X-Received") != fmt.Sprint(bomb.Len()) || len(text) != bomb.Len() {
		t.Errorf("of %d bytes the service got %s, the client %d", bomb.Len(), res.Header.Get("X-Received"), len(text))
	}
	if res, _ := r.send(API, http.MethodPost, "/v1/check", bomb.String(), "Content-Encoding", "gzip"); res.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("the API answers %d", res.StatusCode)
	}
	if grown := int64(heap()) - int64(before); grown > 16<<20 {
		t.Errorf("a bomb of %d bytes takes %d KiB", bomb.Len(), grown>>10)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"http: {max_connections: 2}"+roomy), nil)
	ask := func(c net.Conn) {
		if _, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"); err != nil {
			t.Error(err)
		}
	}
	answered := func(in *bufio.Reader) bool {
		line, err := in.ReadString('\n')
		return err == nil && strings.Contains(line, " 200 ")
	}
	var held []net.Conn
	for range 2 {
		c, in := r.connect(Proxy)
		ask(c)
		if !answered(in) {
			t.Fatal("no answer within the bound")
		}
		held = append(held, c)
	}
	third, in := r.connect(Proxy)
	ask(third)
	var waiting sync.WaitGroup
	got := make(chan bool, 1)
	waiting.Go(func() { got <- answered(in) })
	select {
	case <-got:
		t.Error("a third connection was answered")
	case <-time.After(100 * time.Millisecond): // that nothing happens takes time to see
	}
	held[0].Close()
	waiting.Wait()
	if len(got) == 1 && !<-got {
		t.Error("the third connection was not answered when another had ended")
	}
}
