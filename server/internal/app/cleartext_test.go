package app

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cleartext returns a client that speaks HTTP/2 without TLS from the first byte, and the number of its connections.
func cleartext(t *testing.T) (*http.Client, *atomic.Int64) {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	var dialed atomic.Int64
	tr := &http.Transport{Protocols: &p, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}, &dialed
}

// Callers of the decision API may use HTTP/2 without TLS, and then many calls share a connection. The rules of access
// are the same, and the other listeners speak HTTP/1 as before.
func TestTheAPISpeaksCleartextHTTP2(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+roomy), nil)
	status := r.status(API, "/openapi.yaml") // over HTTP/1
	client, dialed := cleartext(t)
	plain := r.client
	r.client = client
	if got, _ := r.send(API, http.MethodGet, "/openapi.yaml", ""); status != http.StatusOK || got.Proto != "HTTP/2.0" || got.StatusCode != http.StatusOK {
		t.Fatalf("over HTTP/1 %d, over HTTP/2 %+v", status, got)
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			got, text := r.send(API, http.MethodPost, "/v1/check", fmt.Sprintf(`{"requests":[{"client_ip":"192.0.2.%d"},{"cost":0}]}`, i))
			if got.StatusCode != http.StatusOK || !strings.Contains(text, `{"answers":[{"decision":{"allowed":true`) || !strings.Contains(text, `{"problem":{`) {
				t.Errorf("batch %d over HTTP/2: %d %s", i, got.StatusCode, text)
			}
		})
	}
	all.Wait()
	if n := dialed.Load(); n != 1 {
		t.Errorf("%d connections were made, want 1", n)
	}
	r.client = plain
	if n := r.figure(`sluice_decisions_total{outcome="allowed",rule="one"}`); n != "100" {
		t.Errorf("%s requests were counted, want 100", n)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL(API)+"/v1/check", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	q.Host = "rebound.example"
	res, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign Host gets %d", res.StatusCode)
	}
	for _, other := range []string{Proxy, Admin} {
		if res, err := client.Get(r.URL(other)); err == nil {
			res.Body.Close()
			t.Errorf("the listener %s answers %d over HTTP/2", other, res.StatusCode)
		}
	}
}

// callHeader is a POST http to the call that decides: the authority and the path are literals under the names that
// HPACK numbers 1 and 4.
func callHeader(authority string) string {
	return "\x83\x86\x01" + string(rune(len(authority))) + authority + "\x04\x09/v1/check"
}

// TestRapidResetOfTheAPI opens ten thousand calls without TLS, whose bodies never come, and takes each back at once.
func TestRapidResetOfTheAPI(t *testing.T) {
	r := start(t, parse(t, free+roomy), nil)
	if got := r.status(API, "/"); got != http.StatusOK {
		t.Fatalf("answers %d", got)
	}
	before, goroutines := heap(), runtime.NumGoroutine()
	authority := strings.TrimPrefix(r.URL(API), "http://")
	ended := make(chan int)
	for range 2 {
		go func() {
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", authority)
			if err != nil {
				t.Error(err)
				ended <- 0
				return
			}
			ended <- resetRapidly(t, c, 4, callHeader(authority))
		}()
	}
	most, longest := 0, time.Duration(0)
	for range 100 {
		at := time.Now()
		if got := r.status(API, "/"); got != http.StatusOK {
			t.Errorf("others get %d", got)
		}
		longest, most = max(longest, time.Since(at)), max(most, runtime.NumGoroutine())
	}
	if opened := <-ended + <-ended; opened < 500 {
		t.Errorf("only %d calls were opened: this tests nothing", opened)
	}
	if longest > 2*time.Second || most > goroutines+2*250+100 {
		t.Errorf("others wait %v, and there are %d goroutines", longest, most)
	}
	eventually(t, "the end of all that was taken back", func() bool { return runtime.NumGoroutine() < goroutines+50 })
	if grown := int64(heap()) - int64(before); grown > 32<<20 {
		t.Errorf("%d KiB are left", grown>>10)
	}
}

// TestStreamsOfTheAPIAreBounded opens more calls on one connection than a connection may have.
func TestStreamsOfTheAPIAreBounded(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+roomy), nil)
	authority := strings.TrimPrefix(r.URL(API), "http://")
	c, _ := r.connect(API)
	const calls, bound = 300, 250
	out := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0, "")...)
	for i := range calls {
		out = append(out, frame(1, 4, uint32(2*i+1), callHeader(authority))...)
	}
	if _, err := c.Write(out); err != nil {
		t.Fatal(err)
	}
	refused := map[uint32]bool{}
	for head := make([]byte, 9); len(refused) < calls-bound; {
		if _, err := io.ReadFull(c, head); err != nil {
			t.Fatalf("%d of %d calls were refused, then %v", len(refused), calls-bound, err)
		}
		if _, err := io.CopyN(io.Discard, c, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
			t.Fatal(err)
		}
		if stream := binary.BigEndian.Uint32(head[5:]); head[3] == 3 {
			refused[stream] = true
			if stream <= 2*bound {
				t.Errorf("stream %d is refused, which is one of the first %d", stream, bound)
			}
		}
	}
}
