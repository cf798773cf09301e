package load

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestCallsComeAtTheirTimes checks that calls come at their times, whatever the answers.
func TestCallsComeAtTheirTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r, err := Run(4, 1000, time.Second, func(int) func() error {
			return func() error {
				time.Sleep(time.Millisecond) //nolint:forbidigo // under testing/synctest, the sleep is virtual
				return nil
			}
		})
		if err != nil || r.Calls != 1000 || r.Took != time.Since(began) || r.Took < 990*time.Millisecond || r.Took > time.Second {
			t.Errorf("%d calls in %v, %v", r.Calls, r.Took, err)
		}
		if p50, most := r.Latencies.Quantile(0.5), r.Latencies.Quantile(1); p50 < time.Millisecond || most > 1040*time.Microsecond {
			t.Errorf("%v, at most %v", p50, most)
		}
	})
}

// TestSlowAnswerCounts checks that calls which wait behind a slow answer count from when they were due.
func TestSlowAnswerCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		made := 0
		r, err := Run(1, 100, time.Second, func(int) func() error {
			return func() error {
				if made++; made == 11 {
					time.Sleep(500 * time.Millisecond) //nolint:forbidigo // under testing/synctest, the sleep is virtual
				}
				return nil
			}
		})
		if err != nil || r.Calls != 100 {
			t.Fatalf("%d calls, %v", r.Calls, err)
		}
		// The slow call, and the 49 calls that were due meanwhile, by 10 ms less each.
		if p50, p75 := r.Latencies.Quantile(0.5), r.Latencies.Quantile(0.75); p50 != 0 || p75 < 240*time.Millisecond || p75 > 260*time.Millisecond {
			t.Errorf("half of the calls wait %v, and a quarter at least %v; want 0 and some 250 ms", p50, p75)
		}
	})
}

// TestCallersEndWithTheirFirstError checks that a caller ends with its first error.
func TestCallersEndWithTheirFirstError(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	r, err := Run(3, 0, time.Hour, func(int) func() error { return func() error { return wrong } })
	if !errors.Is(err, wrong) || r.Calls != 0 {
		t.Errorf("%d calls, %v", r.Calls, err)
	}
}

// TestHTTP makes requests over connections that are kept.
func TestHTTP(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		if served.Add(1)%2 == 0 {
			w.(http.Flusher).Flush() // the answer comes in chunks
		}
		_, _ = w.Write(bytes.Repeat([]byte("answer\n"), 1000)) // the client reads it
	}))
	defer s.Close()
	h := NewHTTP(s.Listener.Addr().String(), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 2)
	defer h.Close()
	for range 3 {
		for i := range 2 {
			if err := h.Caller(i)(); err != nil {
				t.Error(err)
			}
		}
	}
	if served.Load() != 6 {
		t.Errorf("%d requests", served.Load())
	}
	c, err := Dial(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Do([]byte("GET /other HTTP/1.1\r\nHost: x\r\n\r\n")); !errors.Is(err, errAnswer) {
		t.Error(err)
	}
}
