package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httplimit"
	"github.com/sluicehq/sluice/policy"
)

// rw is a ResponseWriter without optional methods.
type rw struct{}

func (rw) Header() http.Header         { return make(http.Header) }
func (rw) Write(p []byte) (int, error) { return len(p), nil }
func (rw) WriteHeader(int)             {}

// Each optional method of a ResponseWriter is in a type of its own.
type (
	canFlush    struct{}
	canHijack   struct{}
	canReadFrom struct{}
	canPush     struct{}
)

func (canFlush) Flush()                                        {}
func (canHijack) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }
func (canReadFrom) ReadFrom(io.Reader) (int64, error)          { return 7, nil }
func (canPush) Push(string, *http.PushOptions) error           { return nil }

// countingAll allows all requests and calls seen with each status.
func countingAll(tb testing.TB, seen func(status int), next http.HandlerFunc) http.Handler {
	tb.Helper()
	clock := int64(1e6)
	return limited(tb, storeAt(tb, &clock), sluice.FixedWindow{Rate: sluice.PerHour(1000)}, httplimit.Options{
		Counts: func(status int) bool { seen(status); return true },
	}, next)
}

// A handler finds exactly the optional methods that it would find without a middleware, and ReadFrom, which works
// without the server's.
func TestResponseWriterCanDoAsMuch(t *testing.T) {
	for _, w := range []http.ResponseWriter{
		rw{},
		struct {
			rw
			canFlush
		}{},
		struct {
			rw
			canHijack
		}{},
		struct {
			rw
			canReadFrom
		}{},
		struct {
			rw
			canPush
		}{},
		struct {
			rw
			canFlush
			canHijack
		}{},
		struct {
			rw
			canFlush
			canReadFrom
		}{},
		struct {
			rw
			canFlush
			canPush
		}{},
		struct {
			rw
			canHijack
			canReadFrom
		}{},
		struct {
			rw
			canHijack
			canPush
		}{},
		struct {
			rw
			canReadFrom
			canPush
		}{},
		struct {
			rw
			canFlush
			canHijack
			canReadFrom
		}{},
		struct {
			rw
			canFlush
			canHijack
			canPush
		}{},
		struct {
			rw
			canFlush
			canReadFrom
			canPush
		}{},
		struct {
			rw
			canHijack
			canReadFrom
			canPush
		}{},
		struct {
			rw
			canFlush
			canHijack
			canReadFrom
			canPush
		}{},
	} {
		can := func(w http.ResponseWriter) (all [3]bool) {
			_, all[0] = w.(http.Flusher)
			_, all[1] = w.(http.Hijacker)
			_, all[2] = w.(http.Pusher)
			return all
		}
		var statuses []int
		var got [3]bool
		copied := int64(len("text"))
		if _, ok := w.(io.ReaderFrom); ok {
			copied = 7
		}
		h := countingAll(t, func(status int) { statuses = append(statuses, status) }, func(w http.ResponseWriter, _ *http.Request) {
			got = can(w)
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			if f, ok := w.(http.Pusher); ok {
				if err := f.Push("/", nil); err != nil {
					t.Error(err)
				}
			}
			if f, ok := w.(http.Hijacker); ok {
				if _, _, err := f.Hijack(); err != nil {
					t.Error(err)
				}
			}
			if n, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("text")); n != copied || err != nil {
				t.Errorf("ReadFrom copied %d bytes (%v), want %d: the server's says 7", n, err, copied)
			}
		})
		h.ServeHTTP(w, get("/"))
		if want := can(w); got != want {
			t.Errorf("flush, hijack, push: got %v; want %v", got, want)
		}
		want := 200
		if got[1] && !got[0] {
			want = 101
		}
		if len(statuses) != 1 || statuses[0] != want {
			t.Errorf("with %v the status is %v; want %d", got, statuses, want)
		}
	}
}

// Over real connections, events arrive one by one, upgrades hijack the connection,
// and the last status counts.
func TestStreamingAndUpgrades(t *testing.T) {
	statuses := make(chan int, 5)
	controlled := make(chan error, 1)
	next := make(chan struct{})
	wrong := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	h := countingAll(t, func(status int) { statuses <- status }, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/events":
			for i := range 3 {
				fmt.Fprintf(w, "event %d\n", i)
				w.(http.Flusher).Flush()
				<-next
			}
		case "/upgrade":
			conn, both, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: test\r\nConnection: Upgrade\r\n\r\n")
			line, err := both.ReadString('\n')
			fmt.Fprintf(conn, "%s%v", line, err)
			conn.Close()
		case "/hints":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusAccepted)
			_, err := io.WriteString(w, "done")
			wrong(err)
		case "/copy":
			_, err := io.Copy(w, strings.NewReader("copied"))
			wrong(err)
		case "/control":
			c := http.NewResponseController(w)
			controlled <- c.SetWriteDeadline(time.Now().Add(time.Minute))
			wrong(c.Flush())
		}
	})
	server := httptest.NewServer(h)
	defer server.Close()

	events, err := http.Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(events.Body)
	for i := range 3 {
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintf("event %d\n", i) {
			t.Fatalf("got %q, %v", line, err)
		}
		next <- struct{}{}
	}
	events.Body.Close()

	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /upgrade HTTP/1.1\r\nHost: x\r\nUpgrade: test\r\nConnection: Upgrade\r\n\r\nhello\n")
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 101 ") || !strings.HasSuffix(string(answer), "hello\n<nil>") {
		t.Errorf("got %q, %v", answer, err)
	}
	conn.Close()

	for path, want := range map[string]string{"/hints": "done", "/copy": "copied", "/control": ""} {
		answer, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil || string(body) != want {
			t.Errorf("%s: got %q, %v", path, body, err)
		}
		answer.Body.Close()
	}
	if err := <-controlled; err != nil {
		t.Error(err)
	}
	seen := map[int]int{}
	for range 5 {
		seen[<-statuses]++
	}
	if seen[200] != 3 || seen[101] != 1 || seen[202] != 1 {
		t.Errorf("the statuses are %v", seen)
	}
}

// No ResponseWriter is wrapped unless an option needs it.
func TestResponseWriterIsNotWrapped(t *testing.T) {
	clock := int64(1e6)
	for _, a := range []sluice.Algorithm{sluice.FixedWindow{Rate: sluice.PerHour(5)}, sluice.Concurrency{Max: 1}} {
		w := httptest.NewRecorder()
		h := limited(t, storeAt(t, &clock), a, httplimit.Options{Context: true}, func(got http.ResponseWriter, _ *http.Request) {
			if got != http.ResponseWriter(w) {
				t.Errorf("%v: the ResponseWriter is %T", a, got)
			}
		})
		h.ServeHTTP(w, get("/"))
	}
}

// The common case costs three allocations.
func TestMiddlewareAllocatesThreeTimes(t *testing.T) {
	clock := int64(1e6)
	limit := sluice.MustLimit("l", sluice.TokenBucket{Rate: sluice.PerSecond(1e6)})
	h := wrap(t, keyed(t, httplimit.KeyOptions{
		Store: storeAt(t, &clock), Limits: []*sluice.Limit{limit}, Key: []policy.Part{policy.ClientIP().IfMissing(policy.MissingDeny)},
	}), httplimit.Options{}, nothing)
	r := get("/")
	w := &noWriter{make(http.Header)}
	if n := testing.AllocsPerRun(1000, func() { clear(w.header); h.ServeHTTP(w, r) }); n > 3 {
		t.Errorf("%v allocations", n)
	}
}
