package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bandwidth"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/internal/ratetest"
	"github.com/sluicehq/sluice/memory"
	"github.com/sluicehq/sluice/policy"
)

const megabyte = 1_000_000

// pacing returns a handler under a rule with a bandwidth for each X-Key.
func pacing(tb testing.TB, b policy.Bandwidth, next http.HandlerFunc) http.Handler {
	tb.Helper()
	store, err := memory.New(memory.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{
		Name: "paced", Key: []policy.Part{policy.Header("X-Key")}, Bandwidth: &b,
	}}})
	if err != nil {
		tb.Fatal(err)
	}
	d, err := httplimit.NewPolicyDecider(httplimit.PolicyOptions{Policy: p, Store: store})
	if err != nil {
		tb.Fatal(err)
	}
	return wrap(tb, d, httplimit.Options{OnError: func(_ *http.Request, err error) { tb.Error(err) }}, next)
}

// requestOf returns a request with a key in X-Key.
func requestOf(ctx context.Context, key, target string, body io.Reader) *http.Request {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		panic(err)
	}
	r.Header.Set("X-Key", key)
	return r
}

// zeroes returns a reader of n bytes.
func zeroes(n int64) io.Reader { return io.LimitReader(endless{}, n) }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// between fails the test if took is more than a chunk's time from want.
func between(t *testing.T, what string, took, want time.Duration) {
	t.Helper()
	if took < want-time.Millisecond || took > want+bandwidth.ChunkTime {
		t.Errorf("%s took %v, not %v", what, took, want)
	}
}

// TestBandwidthExactly paces bodies by a virtual clock: each direction has its rate,
// and each key has rates of its own.
func TestBandwidthExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := pacing(t, policy.Bandwidth{Down: sluice.PerSecond(2 * megabyte), Up: sluice.PerSecond(megabyte)}, func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			if n, err := io.Copy(io.Discard, r.Body); n != megabyte || err != nil {
				t.Errorf("read %d, %v", n, err)
			}
			between(t, "reading "+r.Header.Get("X-Key"), time.Since(began), 970*time.Millisecond)
			began = time.Now()
			if n, err := io.Copy(w, zeroes(2*megabyte)); n != 2*megabyte || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
			between(t, "writing "+r.Header.Get("X-Key"), time.Since(began), 970*time.Millisecond)
		})
		var all sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			all.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, requestOf(t.Context(), key, "/", zeroes(megabyte)))
				if w.Body.Len() != 2*megabyte {
					t.Errorf("%d bytes arrived", w.Body.Len())
				}
			})
		}
		all.Wait()
	})
}

// TestBandwidthIsShared lets two requests of a key share its rate.
func TestBandwidthIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := pacing(t, policy.Bandwidth{Down: sluice.PerSecond(megabyte)}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, zeroes(megabyte))
		})
		began := time.Now()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				h.ServeHTTP(httptest.NewRecorder(), requestOf(t.Context(), "a", "/", nil))
				if took := time.Since(began); took < 1900*time.Millisecond || took > 1990*time.Millisecond {
					t.Errorf("one of two took %v", took)
				}
			})
		}
		all.Wait()
	})
}

// TestBandwidthOfClientGone ends the handler's writes when the client goes.
func TestBandwidthOfClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		h := pacing(t, policy.Bandwidth{Down: sluice.PerSecond(megabyte)}, func(w http.ResponseWriter, _ *http.Request) {
			if n, err := w.Write(make([]byte, megabyte)); !errors.Is(err, context.Canceled) || n > 400_000 {
				t.Errorf("wrote %d, %v", n, err)
			}
		})
		began := time.Now()
		h.ServeHTTP(httptest.NewRecorder(), requestOf(ctx, "a", "/", nil))
		if took := time.Since(began); took != 300*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// TestBandwidthOfHead checks that the body of a HEAD response takes no time, because it is never sent.
func TestBandwidthOfHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := pacing(t, policy.Bandwidth{Down: sluice.PerSecond(1000)}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, megabyte))
		})
		r := requestOf(t.Context(), "a", "/", nil)
		r.Method = http.MethodHead
		began := time.Now()
		h.ServeHTTP(httptest.NewRecorder(), r)
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// TestBandwidthBodyClosed reads from a closed body: the error is the same as without pacing.
func TestBandwidthBodyClosed(t *testing.T) {
	h := pacing(t, policy.Bandwidth{Up: sluice.PerSecond(megabyte)}, func(_ http.ResponseWriter, r *http.Request) {
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("the error is %v", err)
		}
	})
	h.ServeHTTP(httptest.NewRecorder(), requestOf(t.Context(), "a", "/", zeroes(10)))
}

// rateOf reads for a while and returns the bytes per second.
func rateOf(t *testing.T, r io.Reader) float64 {
	t.Helper()
	p := make([]byte, 64<<10)
	rate, err := ratetest.Measure(func() (int, error) { return r.Read(p) })
	if err != nil {
		t.Fatal(err)
	}
	return rate
}

// TestDownloadsKeepTheRate downloads over HTTP: bytes that a handler writes, and a file that the kernel sends.
func TestDownloadsKeepTheRate(t *testing.T) {
	t.Parallel()
	const rate = 50 * megabyte
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 1<<40); err != nil {
		t.Fatal(err)
	}
	for name, handler := range map[string]http.HandlerFunc{
		"written": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, endless{}) },
		"file":    func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(pacing(t, policy.Bandwidth{Down: sluice.PerSecond(rate)}, handler))
			defer s.Close()
			ratetest.Within(t, rate, func(try int) float64 {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				res, err := s.Client().Do(requestOf(ctx, fmt.Sprint(try), s.URL, nil))
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				return rateOf(t, res.Body)
			})
		})
	}
}

// TestUploadsKeepTheRate uploads over HTTP.
func TestUploadsKeepTheRate(t *testing.T) {
	const rate = 20 * megabyte
	seen := make(chan float64, 1)
	s := httptest.NewServer(pacing(t, policy.Bandwidth{Up: sluice.PerSecond(rate)}, func(_ http.ResponseWriter, r *http.Request) {
		seen <- rateOf(t, r.Body)
		panic(http.ErrAbortHandler) // the client would send for ever
	}))
	defer s.Close()
	ratetest.Within(t, rate, func(try int) float64 {
		res, err := s.Client().Do(requestOf(t.Context(), fmt.Sprint(try), s.URL, endless{}))
		if err == nil {
			res.Body.Close()
			t.Error("the connection was not cut")
		}
		return <-seen
	})
}

// TestBandwidthFlush checks that flushed bytes are sent at once.
func TestBandwidthFlush(t *testing.T) {
	next := make(chan struct{})
	s := httptest.NewServer(pacing(t, policy.Bandwidth{Down: sluice.PerSecond(megabyte)}, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "event %d\n", i)
			if i == 1 {
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			} else {
				w.(http.Flusher).Flush()
			}
			<-next
		}
	}))
	defer s.Close()
	res, err := s.Client().Do(requestOf(t.Context(), "a", s.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	for i := range 3 {
		if line, err := in.ReadString('\n'); line != fmt.Sprintf("event %d\n", i) || err != nil {
			t.Fatalf("event %d should arrive at once, got %q, %v", i, line, err)
		}
		next <- struct{}{}
	}
}

// TestBandwidthHijacked paces a hijacked connection in both directions.
func TestBandwidthHijacked(t *testing.T) {
	const rate, size = megabyte, 240_000 // 200 ms and the burst
	up := make(chan time.Duration, 1)
	s := httptest.NewServer(pacing(t, policy.Bandwidth{Down: sluice.PerSecond(rate), Up: sluice.PerSecond(rate)}, func(w http.ResponseWriter, _ *http.Request) {
		conn, buffers, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		go func() { // as the handlers of some protocols do
			defer conn.Close()
			_, _ = buffers.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_ = buffers.Flush()
			began := time.Now()
			got := make([]byte, size)
			if _, err := io.ReadFull(buffers, got); err != nil {
				t.Error(err)
			}
			up <- time.Since(began)
			if !bytes.Equal(got, bytes.Repeat([]byte("echo"), size/4)) {
				t.Error("the bytes received differ from the bytes sent")
			}
			_, _ = conn.Write(got)
		}()
	}))
	defer s.Close()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The first bytes come with the header and are in the server's buffer.
	sent := "GET / HTTP/1.1\r\nHost: x\r\nX-Key: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n" + strings.Repeat("echo", size/4)
	if _, err := io.WriteString(conn, sent); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", res.StatusCode)
	}
	if took := <-up; took < 180*time.Millisecond {
		t.Errorf("up took %v", took)
	}
	began := time.Now()
	if n, err := io.Copy(io.Discard, in); n != size || err != nil {
		t.Errorf("%d bytes came down, want all: %v", n, err)
	}
	if took := time.Since(began); took < 180*time.Millisecond {
		t.Errorf("down took %v", took)
	}
}

// TestBandwidthDeadline counts the client's time to read against a handler's deadline, but not
// the time that pacing takes.
func TestBandwidthDeadline(t *testing.T) {
	const deadline = 200 * time.Millisecond
	done := make(chan error, 1)
	start := func(rate int64, write func(w io.Writer) error) io.Reader {
		s := httptest.NewServer(pacing(t, policy.Bandwidth{Down: sluice.PerSecond(rate)}, func(w http.ResponseWriter, _ *http.Request) {
			control := http.NewResponseController(w)
			err := control.SetWriteDeadline(time.Now().Add(deadline))
			if err == nil {
				err = write(w)
			}
			if err == nil {
				err = control.SetWriteDeadline(time.Time{})
			}
			done <- err
		}))
		t.Cleanup(s.Close)
		res, err := s.Client().Do(requestOf(t.Context(), "a", s.URL, nil))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res.Body
	}
	const size = 640_000
	body := start(megabyte, func(w io.Writer) error {
		_, err := w.Write(make([]byte, size)) // 600 ms
		return err
	})
	if n, err := io.Copy(io.Discard, body); n != size || err != nil {
		t.Errorf("pacing used up the deadline: %d bytes, %v", n, err)
	}
	if err := <-done; err != nil {
		t.Errorf("a client that reads: %v", err)
	}
	start(1000*megabyte, func(w io.Writer) error {
		_, err := io.Copy(struct{ io.Writer }{w}, endless{}) // until the buffers between are full
		return err
	})
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a client that reads nothing: %v", err)
	}
}
