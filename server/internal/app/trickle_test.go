package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestTrickledBodiesEnd holds both connections to the service with bodies that come a byte at a time.
func TestTrickledBodiesEnd(t *testing.T) {
	t.Parallel()
	service := behind(t, func(_ http.ResponseWriter, q *http.Request) { _, _ = io.Copy(io.Discard, q.Body) })
	for name, settings := range map[string]string{
		"least rate": "{min_body_rate: 1KiB, body_grace: 300ms}",
		"total time": "{min_body_rate: 0B, body_timeout: 300ms}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, parse(t, free+"http: "+settings+"\nupstream: {url: '"+service+"', max_connections: 2}"+roomy), nil)
			ended := make(chan string)
			for range 2 {
				c, in := r.connect(Proxy)
				fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 1000000\r\n\r\n.")
				stop := make(chan struct{})
				go func() {
					tick := time.NewTicker(20 * time.Millisecond)
					defer tick.Stop()
					for {
						select {
						case <-stop:
							return
						case <-tick.C:
							_, _ = io.WriteString(c, ".") // until the server closes it
						}
					}
				}()
				go func() {
					line, _ := in.ReadString('\n')
					close(stop)
					ended <- line
				}()
			}
			began := time.Now()
			if got := r.status(Proxy, "/"); got != http.StatusOK {
				t.Errorf("others get %d", got)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("others wait %v", took)
			}
			for range 2 {
				if line := <-ended; !strings.Contains(line, " 408 ") {
					t.Errorf("a slow client gets %q", line)
				}
			}
			if got := r.figure(`sluice_client_failures_total{problem="body-stalled"}`); got != "2" {
				t.Errorf("%s stalled bodies are counted", got)
			}
		})
	}
}

// TestSteadyBodiesPass sends a body at a rate that is allowed, with a pause that the grace allows, and one that the
// service answers while it comes.
func TestSteadyBodiesPass(t *testing.T) {
	t.Parallel()
	r := start(t, parse(t, free+"http: {min_body_rate: 1KiB, body_grace: 1s}\nupstream: "+behind(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/converse" {
			_ = http.NewResponseController(w).EnableFullDuplex()
			_ = http.NewResponseController(w).Flush()
		}
		n, _ := io.Copy(io.Discard, q.Body)
		fmt.Fprint(w, n)
	})+roomy), nil)
	for target, x := range map[string]struct {
		pieces int
		every  time.Duration
		size   int
	}{
		"/upload":   {8, 100 * time.Millisecond, 1000},
		"/late":     {1, 200 * time.Millisecond, 10},
		"/converse": {16, 150 * time.Millisecond, 1}, // longer than the grace
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			body, out := io.Pipe()
			go func() {
				tick := time.NewTicker(x.every)
				defer tick.Stop()
				for range x.pieces {
					<-tick.C
					_, _ = io.WriteString(out, strings.Repeat(".", x.size))
				}
				out.Close()
			}()
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL(Proxy)+target, body)
			if err != nil {
				t.Fatal(err)
			}
			res, err := r.client.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			if err != nil || string(got) != fmt.Sprint(x.pieces*x.size) {
				t.Errorf("got %d %q, %v", res.StatusCode, got, err)
			}
		})
	}
}

// TestSlowReadersEnd reads an answer too slowly, though never with a long pause.
func TestSlowReadersEnd(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	r := start(t, parse(t, free+"http: {min_body_rate: 8MiB, body_grace: 200ms}\nupstream: "+behind(t, func(w http.ResponseWriter, q *http.Request) {
		defer close(ended)
		piece := make([]byte, 64<<10)
		for q.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})+roomy), func(o *Options) { o.Stall = 500 * time.Millisecond })
	c, in := r.connect(Proxy)
	if err := c.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		select {
		case <-ended:
			return
		default:
		}
		_, _ = io.CopyN(io.Discard, in, 8<<10)
		if time.Now().After(end) {
			t.Fatal("the answer goes on")
		}
	}
}
