package dashboard

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/server/internal/wire"
)

// made is a Dashboard over made-up data.
type made struct {
	*Dashboard
	frames   atomic.Int64
	revealed []string
	acted    []string
	failing  error // of BeforeReveal
	draining chan struct{}
}

func newMade() *made {
	m := &made{draining: make(chan struct{})}
	act := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		m.acted = append(m.acted, r.Method+" "+string(text))
		fmt.Fprintln(w, "{}")
	})
	m.Dashboard = New(Options{
		Live: func(_ context.Context, rule string, all bool) *wire.Live {
			m.frames.Add(1)
			return &wire.Live{Version: fmt.Sprint(rule, " all=", all), Keys: []wire.DeniedKey{{Rule: "login", Digest: "d1"}}}
		},
		Rules: func() wire.Rules { return wire.Rules{Policy: 7} },
		Known: func(rule string) bool { return rule == "login" },
		History: func(_ context.Context, rule, span string, all bool) *wire.History {
			return &wire.History{Rule: fmt.Sprint(rule, " ", span, " all=", all)}
		},
		KeyOf: func(_ context.Context, rule, digest string) []string {
			if rule == "login" && digest == "d1" {
				return []string{"192.0.2.1", `<script>`}
			}
			return nil
		},
		BeforeReveal: func(_ *http.Request, rule, digest string) error {
			m.revealed = append(m.revealed, rule+" "+digest)
			return m.failing
		},
		Reset: act, Unban: act, Override: act, Draining: m.draining,
		Operates: func(r *http.Request) bool { return r.Header.Get("Authorization") != "Bearer read" },
	})
	return m
}

// mux answers all calls and files.
func (m *made) mux() http.Handler {
	mux := http.NewServeMux()
	for path, h := range m.Calls() {
		mux.Handle(path, h)
	}
	mux.Handle("/ui", Static())
	mux.Handle("/ui/", Static())
	return mux
}

func send(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	h.ServeHTTP(w, r)
	return w
}

func TestCallsOfThePage(t *testing.T) {
	m := newMade()
	const key = `{"rule":"login","digest":"d1"}`
	for _, x := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/live", "", 200, `"digest":"d1"`},
		{"GET", "/v1/live?rule=login", "", 200, `"version":"login all=false"`},
		{"GET", "/v1/live?rule=login&servers=all", "", 200, `"version":"login all=true"`},
		{"GET", "/v1/live?servers=this", "", 200, `"version":" all=false"`},
		{"GET", "/v1/live?servers=other", "", 400, "give this or all"},
		{"GET", "/v1/live?rule=nobody", "", 400, `There is no rule \"nobody\".`},
		{"GET", "/v1/live?rul=login", "", 400, `\"rul\" is unknown, or given twice.`},
		{"GET", "/v1/live?rule=login&rule=login", "", 400, "given twice"},
		{"POST", "/v1/live", "", 405, "takes GET only"},
		{"GET", "/v1/rules", "", 200, `"policy":7`},
		{"GET", "/v1/rules?x=1", "", 400, "unknown"},
		{"GET", "/v1/history", "", 200, `"rule":" hour all=false"`},
		{"GET", "/v1/history?rule=login&span=day&servers=all", "", 200, `"rule":"login day all=true"`},
		{"GET", "/v1/history?span=week", "", 400, "give hour or day"},
		{"GET", "/ui/reveal", "", 405, "takes POST only"},
		{"POST", "/ui/reveal", key, 200, `"key":["192.0.2.1","\u003cscript\u003e"]`},
		{"POST", "/ui/reveal", `{"rule":"login","digest":"d2"}`, 404, "not listed any more"},
		{"POST", "/ui/reveal", `{"rule":"login"}`, 400, "does not name a key"},
		{"POST", "/ui/reveal", `{"rule":"login","digest":"d1","all":true}`, 400, "does not name a key"},
		{"POST", "/ui/reveal", key[:9] + strings.Repeat("x", mostBody) + key[9:], 400, "does not name a key"},
		{"POST", "/ui/reset", key, 200, `{"done":true}`},
		{"POST", "/ui/unban", key, 200, `{"done":true}`},
		{"POST", "/ui/override", key[:len(key)-1] + `,"limit":{"rate":"9/m"},"for_ms":5000,"note":"ticket 7"}`, 200, `{"done":true}`},
		{"POST", "/ui/override", key[:len(key)-1] + `,"key":["192.0.2.2"]}`, 400, "has other fields"},
		{"POST", "/ui/unset", key, 200, `{"done":true}`},
		{"POST", "/ui/unset", key[:len(key)-1] + `,"deny":true}`, 400, "has other fields"},
		{"POST", "/ui/unban", "", 400, "does not name a key"},
	} {
		w := send(m.mux(), x.method, x.path, x.body)
		if w.Code != x.status || !strings.Contains(w.Body.String(), x.want) {
			t.Errorf("%s %s %.60s: %d %s, want %d with %s", x.method, x.path, x.body, w.Code, w.Body, x.status, x.want)
		}
		if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s may be stored or sniffed: %v", x.method, x.path, w.Header())
		}
	}
	if !slices.Equal(m.revealed, []string{"login d1"}) {
		t.Errorf("the recorded keys are %q, want only the key that was shown", m.revealed)
	}
	want := []string{
		`POST {"rule":"login","key":["192.0.2.1","\u003cscript\u003e"]}`, `DELETE {"rule":"login","key":["192.0.2.1","\u003cscript\u003e"]}`,
		`PUT {"rule":"login","key":["192.0.2.1","\u003cscript\u003e"],"limit":{"rate":"9/m"},"for_ms":5000,"note":"ticket 7"}`,
		`DELETE {"rule":"login","key":["192.0.2.1","\u003cscript\u003e"]}`,
	}
	if !slices.Equal(m.acted, want) {
		t.Errorf("the calls of the API are %q, want %q", m.acted, want)
	}
	m.failing = fmt.Errorf("the disk is full; free it")
	if w := send(m.mux(), "POST", "/ui/reveal", key); w.Code != 503 || strings.Contains(w.Body.String(), "192.0.2.1") {
		t.Errorf("a key that cannot be recorded: %d %s", w.Code, w.Body)
	}
}

// The page loads only files of this server, and all files together are small.
func TestThePageIsSmallAndClosed(t *testing.T) {
	h := newMade().mux()
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	err := fs.WalkDir(pages, "page", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		w := send(h, "GET", "/ui"+strings.TrimPrefix(path, "page"), "")
		if w.Code != 200 || !strings.Contains(w.Header().Get("Content-Security-Policy"), "script-src 'self'") || w.Header().Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s is answered %d without a policy for scripts: %v", path, w.Code, w.Header())
		}
		for _, refused := range []string{"<script>", " onclick=", " style=", "javascript:", "innerHTML", "insertAdjacentHTML", "document.write", "http://", "https://"} {
			text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")
			if strings.Contains(text, refused) {
				t.Errorf("%s contains %q", path, refused)
			}
		}
		if again := send(h, "GET", "/ui"+strings.TrimPrefix(path, "page"), "", "If-None-Match", w.Header().Get("ETag")); again.Code != 304 || again.Body.Len() > 0 {
			t.Errorf("%s is sent again to a browser that has it: %d", path, again.Code)
		}
		_, err = z.Write(w.Body.Bytes())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if z.Close(); packed.Len() > 60_000 {
		t.Errorf("the page has %d bytes, compressed", packed.Len())
	}
	for path, want := range map[string]int{"/ui": 307, "/ui/": 200, "/ui/nothing.js": 404, "/ui/..%2fdashboard.go": 404, "/ui/page": 404} {
		if w := send(h, "GET", path, ""); w.Code != want || want == 307 && w.Header().Get("Location") != "ui/" {
			t.Errorf("%s: %d to %q, want %d", path, w.Code, w.Header().Get("Location"), want)
		}
	}
}

// However many clients there are, the server makes a frame once a second.
func TestPagesShareFrames(t *testing.T) {
	m := newMade()
	var running sync.WaitGroup
	for range 50 {
		running.Go(func() { send(m.mux(), "GET", "/v1/live", "") })
	}
	running.Wait()
	if n := m.frames.Load(); n != 1 {
		t.Errorf("50 clients at once took %d frames", n)
	}
	for i := range 100 {
		if _, err := m.Dashboard.frames.get(t.Context(), view{rule: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		for _, f := range m.Dashboard.frames.of {
			f.wanted = f.wanted.Add(-time.Hour)
		}
	}
	if n := len(m.Dashboard.frames.of); n > 2 {
		t.Errorf("%d frames are kept that nobody looks at", n)
	}
}

// A stream has frames each second. It ends when the server drains, and streams are bounded.
func TestStreamsEndWithTheServer(t *testing.T) {
	m := newMade()
	s := httptest.NewServer(m.mux())
	t.Cleanup(s.Close)
	token := "operate"
	open := func() (status int, kind string, lines *bufio.Reader) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Accept", "text/event-stream")
		q.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer.StatusCode, answer.Header.Get("Content-Type"), bufio.NewReader(answer.Body)
	}
	status, kind, lines := open()
	if status != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("a stream begins with %d and %q", status, kind)
	}
	began := time.Now()
	for range 3 {
		line, err := lines.ReadString('\n')
		text, ok := strings.CutPrefix(line, "data: ")
		var l wire.Live
		if err != nil || !ok || json.Unmarshal([]byte(text), &l) != nil || len(l.Keys) != 1 {
			t.Fatalf("a frame is %q, %v", line, err)
		}
		_, _ = lines.ReadString('\n')
	}
	if took := time.Since(began); took < each {
		t.Errorf("three frames came within %v", took)
	}
	token = "read"
	for range mostReaders {
		open()
	}
	if status, _, _ := open(); status != http.StatusServiceUnavailable {
		t.Errorf("the stream %d of callers that only read begins with %d", mostReaders+1, status)
	}
	token = "operate"
	for range mostStreams - mostReaders - 1 {
		if status, _, _ := open(); status != http.StatusOK {
			t.Errorf("beside callers that only read, the stream of an operator begins with %d", status)
		}
	}
	if status, _, _ := open(); status != http.StatusServiceUnavailable {
		t.Errorf("stream %d begins with %d", mostStreams+1, status)
	}
	close(m.draining)
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Errorf("the stream of a server that drains ends with %v", err)
	}
	for range mostStreams { // all have ended, so there is room for as many
		m.streams <- struct{}{}
	}
	for range mostReaders {
		m.readers <- struct{}{}
	}
}

// A client that reads nothing loses its stream, and does not keep others from theirs.
func TestAStreamThatNobodyReads(t *testing.T) {
	t.Parallel()
	m := newMade()
	m.Dashboard.frames.make = func(context.Context, string, bool) *wire.Live {
		return &wire.Live{Version: strings.Repeat("x", 8<<20)}
	}
	s := httptest.NewServer(m.mux())
	t.Cleanup(s.Close)
	c, err := net.Dial("tcp", s.Listener.Addr().String()) //nolint:noctx // it answers at once
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /v1/live HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, open := range []int{1, 0} {
		for began := time.Now(); len(m.streams) != open; <-tick.C {
			if time.Since(began) > 4*unread {
				t.Fatalf("a client that reads nothing has %d streams, want %d", len(m.streams), open)
			}
		}
	}
}
